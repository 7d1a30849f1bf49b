"""A plugin's parts that each break one contract; only loaded as a plugin's file is, by its path."""

from __future__ import annotations

from itertools import count
from typing import Any

import torch
from torch import Tensor

from counterpoise.core.method import Method, method, part
from counterpoise.core.part import (
    Batch,
    Census,
    ClientData,
    Exchange,
    Outputs,
    Part,
    Reveals,
    Stats,
    Step,
    Visit,
)
from counterpoise.core.tree import Params, Tree, multiply, norm
from counterpoise.registry.schema import NonNegative

CALLS = count(1)  # lives as long as the process
NOTHING = Reveals(upload="nothing")


@part()
def speechless() -> Part:
    return Part()


@part()
def vague(rate: Any = 0.5) -> Part:
    """An argument of no type."""
    return Part()


@part()
def sneaky() -> Part:
    """Changes gradients behind torch's back."""

    def adjust(grads: Params, slot: Tree, step: Step) -> tuple[Params, Tree]:
        for gradient in grads.values():
            gradient.numpy()[...] *= 2
        return grads, slot

    return Part(adjust=adjust)


@part()
def secretive(says: NonNegative = 0.0) -> Part:
    """Uploads a number and says nothing of it, or that there is none."""

    def finish(delta: Params, slot: Tree, memory: Tree, stats: Stats) -> tuple[Tree, Tree]:
        return {"size": norm(delta)}, memory

    return Part(finish=finish, reveals=NOTHING if says else Reveals())


@part()
def counting() -> Part:
    """Steps that grow with the calls of this process."""

    def update(delta: Params, slot: Tree, exchange: Exchange) -> tuple[Params, Tree]:
        return multiply(delta, float(next(CALLS))), slot

    return Part(update=update)


@part()
def drawing() -> Part:
    """Noise of the global stream in every client's first step."""

    def prepare(data: ClientData, visit: Visit) -> tuple[ClientData, Tree]:
        return data._replace(rate=float(torch.rand(()))), {}

    return Part(prepare=prepare)


@part()
def hoarding() -> Part:
    """Keeps its rounds in a list of its own instead of a slot."""
    rounds: list[int] = []

    def update(delta: Params, slot: Tree, exchange: Exchange) -> tuple[Params, Tree]:
        rounds.append(exchange.round)
        return multiply(delta, float(len(rounds))), slot

    return Part(update=update)


@part()
def whispering() -> Part:
    """The client half tells the server half something without a message."""
    heard: list[float] = []

    def prepare(data: ClientData, visit: Visit) -> tuple[ClientData, Tree]:
        heard.append(float(len(data.rows)))
        return data, {}

    def update(delta: Params, slot: Tree, exchange: Exchange) -> tuple[Params, Tree]:
        return multiply(delta, 1 + heard[-1] / 100), slot

    return Part(prepare=prepare, update=update)


@part()
def branching() -> Part:
    """A Python `if` on a tensor."""

    def adjust(grads: Params, slot: Tree, step: Step) -> tuple[Params, Tree]:
        return (multiply(grads, 0.5) if norm(grads) > 1 else grads), slot

    return Part(adjust=adjust)


@part()
def numbering() -> Part:
    """Counts clients by its calls; stacked, one call is for many."""
    calls: list[Stats] = []

    def start(params: Params, shared: Tree, memory: Tree, stats: Stats) -> Tree:
        calls.append(stats)
        return {"number": torch.full_like(stats.lr, float(len(calls)))}

    def adjust(grads: Params, slot: Tree, step: Step) -> tuple[Params, Tree]:
        return multiply(grads, slot["number"]), slot

    return Part(start=start, adjust=adjust)


@part()
def late() -> Part:
    """Changes its slot in place, but not in the first round."""

    def init(params: Params, census: Census, surveys: Tree) -> Tree:
        return {"rounds": torch.zeros(())}

    def send(slot: Tree, round: int) -> Tree:
        if round:
            slot["rounds"].add_(1)
        return {}

    return Part(init=init, send=send)


@part()
def planning() -> Part:
    """Plans for the number of rounds, and no slot says so."""
    rounds: list[int] = []

    def init(params: Params, census: Census, surveys: Tree) -> Tree:
        rounds.append(census.rounds)
        return {"anything": torch.zeros(())}

    def update(delta: Params, slot: Tree, exchange: Exchange) -> tuple[Params, Tree]:
        return multiply(delta, 1.0 / rounds[0]), slot

    return Part(init=init, update=update)


@part()
def unmasked() -> Part:
    """A term of the whole batch that counts padding too."""

    def penalty(outputs: Outputs, batch: Batch, slot: Tree) -> Tensor:
        return outputs.logits.square().mean()

    return Part(penalty=penalty)


@part()
def unenrolled() -> Part:
    """Memory that nobody laid out."""

    def finish(delta: Params, slot: Tree, memory: Tree, stats: Stats) -> tuple[Tree, Tree]:
        return {}, {"steps": stats.steps}

    return Part(finish=finish, reveals=NOTHING)


@part()
def forgetful() -> Part:
    """Memory that is never read."""

    def enroll(params: Params, buffers: Params, classes: int) -> Tree:
        return {"steps": torch.zeros((), dtype=torch.float64)}

    def finish(delta: Params, slot: Tree, memory: Tree, stats: Stats) -> tuple[Tree, Tree]:
        return {}, {"steps": memory["steps"] + 1}

    return Part(enroll=enroll, finish=finish, reveals=NOTHING)


@part(off={"strength": 0.0})
def never_off(strength: NonNegative = 0.1) -> Part:
    """Halves gradients, whatever its strength."""

    def adjust(grads: Params, slot: Tree, step: Step) -> tuple[Params, Tree]:
        return multiply(grads, 0.5), slot

    return Part(adjust=adjust)


@part()
def lonely() -> Part:
    """Takes for granted that no other part uploads anything."""

    def update(delta: Params, slot: Tree, exchange: Exchange) -> tuple[Params, Tree]:
        (nothing,) = [*exchange.replies.upload] or [""]
        assert not nothing, "who is this?"
        return delta, slot

    return Part(update=update)


@part()
def sound(strength: NonNegative = 0.1) -> Part:
    """``+ strength g`` on every gradient."""

    def adjust(grads: Params, slot: Tree, step: Step) -> tuple[Params, Tree]:
        return multiply(grads, 1 + strength), slot

    return Part(adjust=adjust)


@method()
def sound_method() -> Method:
    """FedAvg with steps of another length."""
    return Method((sound(),))


def undecorated(strength: NonNegative = 0.2) -> Part:
    """``+ strength g``, in a file that registers nothing of it."""
    return sound(strength)


def no_part() -> int:
    """Not a factory of parts."""
    return 3
