"""What hooks may see: of a batch and a step, of a client and its data, of the federation and a round's replies."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import NamedTuple, Protocol, TypeAlias

import torch
from torch import Tensor

from counterpoise.core.messages import Replies
from counterpoise.core.rng import Key, generator
from counterpoise.core.secret import SecretKey
from counterpoise.core.shares import ceil_share
from counterpoise.core.tree import Params, Tree
from counterpoise.errors import RunError

ZERO, ONE = torch.zeros(()), torch.ones(())
NOTHING: Tree = {}


class Batch(NamedTuple):
    """One mini-batch."""

    x: Tensor  # [B, ...]
    y: Tensor  # [B]
    mask: Tensor  # [B] 1 for a real sample, 0 for padding
    passed: Tensor = ZERO  # [] share of the round's local steps that are done
    key: Tensor = ZERO  # [] of what the model itself draws in this step; 0 where it draws nothing

    def is_class(self, classes: int) -> Tensor:
        """[B, C] whether each sample is of each class."""
        return self.y.unsqueeze(-1) == torch.arange(classes, device=self.y.device)

    def steps_done(self, steps: Tensor) -> Tensor:
        """[] how many of the round's local steps are done: whole, while `passed` is rounded and 0.3 * 10 may be below 3."""
        return torch.round(self.passed * steps)


def _without_batch(params: Params) -> Outputs:
    raise RuntimeError("these outputs come without the batch they are of")


def _without_head(features: Tensor) -> Tensor:
    raise RuntimeError("these outputs come without the last layer that made them")


class Outputs(NamedTuple):
    """What a model computes for a batch."""

    logits: Tensor  # [B, C]
    features: Tensor  # [B, F] input of the last layer; empty where the model has no `features`
    # the same batch under other parameters, without gradients
    at: Callable[[Params], Outputs] = _without_batch
    # other features [B, F] -> logits by the last layer that is trained; gradients go through both
    head: Callable[[Tensor], Tensor] = _without_head


class Stats(NamedTuple):
    """What a client knows before its first step; tensors, so that it stacks."""

    counts: Tensor  # [C] samples of each class it trains on
    steps: Tensor  # [] local steps of this round
    lr: Tensor  # [] learning rate of this round
    momentum: Tensor  # [] local momentum
    knobs: Tree  # settings of this task, by name
    owned: Tensor  # [C] samples of each class before any part prepared them
    epochs: Tensor = ONE  # [] local epochs of this round
    batch_size: Tensor = ONE  # []
    moved: Tensor = ZERO  # [C, C] samples by their class before any part prepared them and now, the diagonal 0; [] where no part re-labels
    # of the method, where runs that differ in them train together: item -> argument -> []
    numbers: Tree = NOTHING
    seen: Tree = NOTHING  # in `start` and `finish`: what the part itself observed of the client's samples

    @property
    def owned_now(self) -> Tensor:
        """[C] `owned` by the labels that samples have now, however often they are repeated."""
        return self.owned + (self.moved.t() - self.moved).sum(-1)


class Gradient(NamedTuple):
    """A gradient with the buffers that its forward pass left behind."""

    grads: Params
    buffers: Params
    loss: Tensor  # []
    outputs: Outputs  # what the model said of the batch on the way


class Step(NamedTuple):
    """What a gradient rule may use."""

    params: Params
    stats: Stats
    # params, buffers=these, objective=None -> the same batch's gradient there
    gradient_at: Callable[..., Gradient]
    # members [H, C] -> grads [H, ...] of each group's share of the batch's loss, from one forward pass
    group_gradients: Callable[[Tensor], Gradient]
    batch: Batch
    found: Gradient | None = None  # None for the gradient source, which makes it

    @property
    def outputs(self) -> Outputs:
        """What the model said of the batch when this step's gradient was taken."""
        if self.found is None:
            raise RuntimeError("a gradient source makes the outputs of its step, and cannot see them before")
        return self.found.outputs


Objective: TypeAlias = Callable[[Outputs, Batch], Tensor]  # -> [] what is differentiated instead of the loss


class ClientData(NamedTuple):
    """A client's samples: rows of the one tensor that holds all, and their labels."""

    rows: Tensor  # [n]
    labels: Tensor  # [n]
    chances: Tensor | None = None  # [n] draw with replacement by these; None: each sample once per epoch
    strata: Tensor | None = None  # [n] every batch holds equally many samples of each of these groups
    held_out: Tensor | None = None  # [h] rows that the client keeps for validation
    held_out_labels: Tensor | None = None  # [h]
    rate: float = 1.0  # factor on the client's learning rate of this round, which all parts then see


class Look(Protocol):
    """The received model in evaluation mode on rows [n] of the client's, as they are, or augmented by draws of a stream."""

    def __call__(self, rows: Tensor, stream: torch.Generator | None = None) -> Outputs: ...


def _without_settings(samples: float) -> int:
    raise RuntimeError("this visit comes without the settings of local training")


class Visit(NamedTuple):
    """What a part may use when it prepares a client's data for a round; all of it on the CPU."""

    shared: Tree  # what the part's server half sends
    memory: Tree  # what the part keeps on this client
    knobs: Mapping[str, float]  # settings of this task
    stream: torch.Generator
    look: Look
    # samples -> local steps of a round on so many, by batches and epochs
    steps: Callable[[float], int] = _without_settings


def round_at(share: float, rounds: int) -> int:
    """The first round from which on this share of all rounds is done."""
    return ceil_share(share, rounds)


def first_round(at: float, rounds: int) -> int:
    """The round that begins after a share of all rounds, below 1, or after a number of rounds."""
    return round_at(at, rounds) if at < 1 else int(at)


class Census(NamedTuple):
    """What the server knows before round 0."""

    samples: Tensor  # [N] samples of each client
    classes: int
    rounds: int
    cohort: int = 0  # clients that a round asks, on average; 0: all that have samples
    poisson: bool = False  # whether each client is asked by a chance of its own, not a fixed number of them
    without: int = 0  # clients that hold nothing out

    @property
    def clients(self) -> int:
        return len(self.samples)

    @property
    def eligible(self) -> int:
        """Clients that may be asked: those with samples."""
        return int((self.samples > 0).sum())

    @property
    def asked(self) -> int:
        return self.cohort or self.eligible

    def round_at(self, share: float) -> int:
        """The first round from which on this share of all rounds is done."""
        return round_at(share, self.rounds)


Measurement: TypeAlias = Callable[[Outputs, Batch], Tree]  # sums over a batch: batches and clients add up
# params, buffers, what is summed over a batch -> these sums over all samples
Measure: TypeAlias = Callable[[Params, Params, Measurement], Tree]


class Pair(NamedTuple):
    """A client, and the model that it is asked to judge."""

    client: int
    model: int  # its place among stacked models


class Exchange(NamedTuple):
    """What a server rule may use after a round."""

    params: Params  # as they were sent out
    replies: Replies
    weights: Tensor  # [K] float64, as far as they are decided
    clients: int  # N, all clients of the federation
    measure: Measure | None = None  # on the server's own samples, where it has any
    round: int = 0
    seed: int = 0  # of the run
    part: str = ""  # who looks
    upload: Tree = NOTHING  # [K, ...] what the client half of this part sent
    # pairs of a client and a reply -> [P, ...] counts of that reply's model on what the client holds out
    ask: Callable[[Sequence[Pair]], Tree] | None = None
    secret: SecretKey | None = None  # of the run; clients and reports never see it

    def stream(self) -> torch.Generator:
        """The random stream of this part in this round, the same whenever it is asked for."""
        return generator(self.seed, f"server {self.part}", self.round)

    def secret_key(self, *path: Key) -> SecretKey:
        """The key of this part in this round, for noise that nobody but the server can work out."""
        if self.secret is None:
            raise RunError(f"{self.part} needs a server with a secret key, and this one has none")
        return self.secret.derive(f"server {self.part}", self.round, *path)

    def renew(self, known: Tensor, found: Tensor) -> Tensor:
        """What is known of every client [N], with what was found of the round's [K]; the slots of a resumed run may be on a GPU."""
        return known.cpu().scatter(0, self.replies.client.cpu(), found.to("cpu", known.dtype))

    def seen_by(self, part: str) -> Exchange:
        """The exchange as a part looks at it, its own upload at hand."""
        return self._replace(part=part, upload=self.replies.upload.get(part, {}))


# selections of replies [M, K] -> [M] validation score of the model that each averages to
Judge: TypeAlias = Callable[[Tensor], Tensor]
