"""Fed-GraB: a controller for each rare class balances what pulls its logit up and down. Xiao et al. 2023, arXiv:2310.07587, spec 3.3."""

from __future__ import annotations

from dataclasses import replace
from typing import Literal, NamedTuple, TypeAlias

import torch
import torch.nn.functional as F  # noqa: N812
from torch import Tensor

from counterpoise.core.method import part
from counterpoise.core.part import Batch, Census, Chart, Exchange, Outputs, Part, Reveals, Stats, Step
from counterpoise.core.tree import Params, Tree
from counterpoise.metrics.shots import shots_by_rule
from counterpoise.models.heads import WEIGHT, with_head
from counterpoise.registry.schema import NonNegative

FEDGRAB = "Xiao et al. 2023, arXiv:2310.07587"
MEMORY = ("gap", "error", "before", "output")
SLOPE = 0.5  # of the factor by the controller's output
FINE = 1e9  # a share as a whole number, which the rule for head, medium and tail takes
SIZES = Chart(
    "sizes", "bars", "Estimated share of each class", lambda slot: shares_of(slot["sizes"]), "classes"
)
Controlled: TypeAlias = Literal["tail", "all"]


@part(paper=FEDGRAB)
def gradient_balancer(
    kp: NonNegative = 10.0, ki: NonNegative = 0.01, kd: NonNegative = 0.1, controlled: Controlled = "tail"
) -> Part:
    """``sum_c v_c BCE(z_c)`` with ``v_c = f(u_c)`` for a sample's own class, ``f(-u_c)`` for others; ``f(x) = (10/9) / (1/9 + e^(-x/2))``.

    u_c is the output of an incremental PID controller, kept by the client from round to round, that drives the sum of
    ``|gradient by z_c|`` of the class's own samples, less that of the others, to 0. The server estimates the classes' sizes by the
    norms of the head's rows; only classes of the tail are controlled, none in the first round. All gains 0: plain BCE.
    The authors' code also leaves controllers out at random, step by step; here none is.
    """
    gains = Gains(kp, ki, kd)

    def enroll(params: Params, buffers: Params, classes: int) -> Tree:
        like = next(iter(params.values()))
        return {name: like.new_zeros(classes) for name in MEMORY}

    def start(params: Params, shared: Tree, memory: Tree, stats: Stats) -> Tree:
        everything = torch.ones_like(memory["gap"])
        return memory | {"on": shared["tail"].to(everything) if controlled == "tail" else everything}

    def loss(outputs: Outputs, batch: Batch, slot: Tree) -> Tensor:
        return _controlled_entropy(outputs.logits, batch, control(slot, gains)["output"])

    def adjust(grads: Params, slot: Tree, step: Step) -> tuple[Params, Tree]:
        now = control(slot, gains)
        pull = _mean_pull(step.outputs.logits, step.batch, now["output"])
        return grads, slot | now | {"gap": slot["gap"] + pull}

    def finish(delta: Params, slot: Tree, memory: Tree, stats: Stats) -> tuple[Tree, Tree]:
        return {}, {name: slot[name] for name in MEMORY}

    def init(params: Params, census: Census, surveys: Tree) -> Tree:
        return {"sizes": torch.zeros(census.classes, dtype=torch.float64)}

    def send(slot: Tree, round: int) -> Tree:
        return {"tail": tail_of(slot["sizes"].cpu())}

    def update(delta: Params, slot: Tree, exchange: Exchange) -> tuple[Params, Tree]:
        found = prior_shares((exchange.params[WEIGHT] + delta[WEIGHT]).double().cpu())
        return delta, {"sizes": slot["sizes"].cpu() + found}  # their sum: only their relation matters

    silent = Reveals(upload="nothing")
    on_clients = Part(enroll=enroll, start=start, loss=loss, adjust=adjust, finish=finish, reveals=silent)
    if controlled == "all":
        return on_clients
    return replace(
        on_clients, adapt=with_head(bias=False), init=init, send=send, update=update, charts=(SIZES,)
    )


class Gains(NamedTuple):
    """Of a controller: proportional, integral, differential."""

    p: float
    i: float
    d: float


def control(slot: Tree, gains: Gains) -> Tree:
    """The controllers [C] after one more reading of the gap; one that is off gives 0 and forgets what it read."""
    on, last = slot["on"], slot["on"] * slot["error"]
    error = -on * slot["gap"]
    change = gains.p * (error - last) + gains.i * error
    change = change + gains.d * (error - 2 * last + on * slot["before"])
    return {"output": on * (slot["output"] + change), "error": error, "before": last}


def targets(logits: Tensor, batch: Batch) -> Tensor:
    """[B, C] 1 for a sample's own class."""
    return batch.is_class(logits.shape[-1]).to(logits)


def factors(output: Tensor, hit: Tensor) -> Tensor:
    """[B, C] on the gradients by the logits: 1 at output 0, up to 10."""
    up, down = ((10 / 9) / (1 / 9 + torch.exp(-SLOPE * x)) for x in (output, -output))
    return hit * up + (1 - hit) * down


def _controlled_entropy(logits: Tensor, batch: Batch, output: Tensor) -> Tensor:
    """[B] the loss: binary cross-entropies of all classes, each with its controller's factor."""
    hit = targets(logits, batch)
    values = F.binary_cross_entropy_with_logits(logits, hit, reduction="none")
    # A constant factor on a class's loss is the same factor on its gradient by the logit.
    return (values * factors(output, hit)).sum(-1)


def _mean_pull(logits: Tensor, batch: Batch, output: Tensor) -> Tensor:
    """[C] what pulls each logit up, less what pulls it down, mean over the batch."""
    hit = targets(logits, batch)
    pull = factors(output, hit) * (hit - logits.sigmoid()) * batch.mask.unsqueeze(-1)
    # Up for a class's own samples, down for others: the sum is the one less the other.
    return pull.sum(0) / batch.mask.sum().clamp(min=1)


def prior_shares(weight: Tensor) -> Tensor:
    """[C] how large the classes are, by the norms of the head's rows: 0 for the shortest; equal where all are.

    The authors standardise the norms first, which cancels.
    """
    norms = torch.linalg.vector_norm(weight, dim=1)
    return shares_of(norms - norms.min())


def shares_of(sizes: Tensor) -> Tensor:
    return sizes / sizes.sum() if sizes.sum() > 0 else torch.full_like(sizes, 1 / len(sizes))


def tail_of(sizes: Tensor) -> Tensor:
    """[C] which classes come after the largest ones that make up 95 % of all; none where nothing is known."""
    tail = torch.zeros(len(sizes), dtype=torch.bool)
    if sizes.sum() > 0:
        tail[list(shots_by_rule((FINE * shares_of(sizes)).round().long().tolist()).tail)] = True
    return tail
