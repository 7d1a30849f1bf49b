"""A part is one idea of one paper: a frozen bundle of pure hooks, its client half and its server half together."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, fields
from fractions import Fraction
from typing import Any, Literal, NamedTuple, Protocol, TypeAlias

import torch
from torch import Tensor, nn

from counterpoise.core.messages import Replies, Task
from counterpoise.core.rng import Key, generator
from counterpoise.core.secret import SecretKey
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


def _without_batch(params: Params) -> Outputs:
    raise RuntimeError("these outputs come without the batch they are of")


class Outputs(NamedTuple):
    """What a model computes for a batch."""

    logits: Tensor  # [B, C]
    features: Tensor  # [B, F] input of the last layer; empty where the model has no `features`
    at: Callable[[Params], Outputs] = (
        _without_batch  # the same batch under other parameters, without gradients
    )


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
    seen: Tree = NOTHING  # in `start` and `finish`: what the part itself observed of the client's samples


class Gradient(NamedTuple):
    """A gradient with the buffers that its forward pass left behind."""

    grads: Params
    buffers: Params
    loss: Tensor  # []
    outputs: Outputs | None = None  # what the model said of the batch on the way


class Step(NamedTuple):
    """What a gradient rule may use."""

    params: Params
    stats: Stats
    gradient_at: Callable[
        ..., Gradient
    ]  # params, buffers=these, objective=None -> the same batch's gradient there
    group_gradients: Callable[
        [Tensor], Gradient
    ]  # members [H, C] -> grads [H, ...] of each group's share of the batch's loss, from one forward pass
    batch: Batch
    outputs: Outputs | None = None  # of this step's gradient; None for the gradient source, which makes them


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
    steps: Callable[[float], int] = (
        _without_settings  # samples -> local steps of a round on so many, by batches and epochs
    )


def round_at(share: float, rounds: int) -> int:
    """The first round from which on this share of all rounds is done; as a fraction: 0.55 * 100 is above 55 in floats."""
    return math.ceil(Fraction(str(share)) * rounds)


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
Measure: TypeAlias = Callable[
    [Params, Params, Measurement], Tree
]  # params, buffers, what is summed over a batch -> these sums over all samples


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
    ask: Callable[[Sequence[Pair]], Tree] | None = (
        None  # pairs of a client and a reply -> [P, ...] counts of that reply's model on what the client holds out
    )
    secret: SecretKey | None = None  # of the run; clients and reports never see it

    def stream(self) -> torch.Generator:
        """The random stream of this part in this round, the same whenever it is asked for."""
        return generator(self.seed, f"server {self.part}", self.round)

    def secret_key(self, *path: Key) -> SecretKey:
        """The key of this part in this round, for noise that nobody but the server can work out."""
        if self.secret is None:
            raise RunError(f"{self.part} needs a server with a secret key, and this one has none")
        return self.secret.derive(f"server {self.part}", self.round, *path)

    def seen_by(self, part: str) -> Exchange:
        """The exchange as a part looks at it, its own upload at hand."""
        return self._replace(part=part, upload=self.replies.upload.get(part, {}))


Judge: TypeAlias = Callable[
    [Tensor], Tensor
]  # selections of replies [M, K] -> [M] validation score of the model that each averages to


Privacy: TypeAlias = Literal[
    "secret", "repeatable"
]  # who can work out the noise: the server, or whoever knows the seed


class Chart(NamedTuple):
    """A quantity of a part's server slot, recorded at every evaluation and drawn by the report."""

    name: str
    kind: Literal["curve", "bars", "flow", "tree"]  # [], [n], [n, n] from row to column, [n, ...] nodes
    title: str
    read: Callable[[Tree], Tensor]  # server slot -> numbers of the kind's shape
    axis: Literal["", "clients", "classes", "layers"] = ""  # what the entries of bars and flows stand for
    columns: tuple[
        str, ...
    ] = ()  # what a tree's nodes hold; the first is the row of the parent, -1 at the root


class Reveals(NamedTuple):
    """What the server learns of a client's data from a part, in words; empty where the part does not say.

    `upload`: what `finish` returns besides memory; "nothing" where that is always empty. `judged`: what clients count for a
    `weigh` that asks them to judge models.
    """

    survey: str = ""
    tally: str = ""
    upload: str = ""
    judged: str = ""


SILENT = Reveals()


def layer_names(params: Params) -> list[str]:
    """The layers that the axis "layers" of a chart stands for: those with a weight of two axes or more, 2 before 10."""
    names = [name for name, p in params.items() if p.dim() > 1]
    return sorted(
        names,
        key=lambda name: [(len(word), word) if word.isdigit() else (0, word) for word in name.split(".")],
    )


@dataclass(frozen=True)
class Part:
    """Hooks of one idea; a part states only what it changes. The slot, memory and upload of a part are its own."""

    name: str = ""  # that of its factory, if the decorator `part` registered it

    # once
    adapt: Callable[[nn.Module], nn.Module] | None = None  # change the model before its parameters are drawn
    survey: Callable[[ClientData, int], Tree] | None = (
        None  # data, classes -> what the server gets before round 0
    )
    tally: Callable[[ClientData, int], Tree] | None = (
        None  # data, classes -> whole numbers, of which the server gets only the sum over all clients
    )
    init: Callable[[Params, Census, Tree], Tree] | None = (
        None  # params, census, surveys [N, ...] or the sum of tallies -> server slot
    )
    enroll: Callable[[Params, Params, int], Tree] | None = (
        None  # params, buffers, classes -> a client's first memory
    )

    # server, before a round
    send: Callable[[Tree, int], Tree] | None = (
        None  # server slot, round -> what every client of the round gets
    )

    propose: Callable[[Tree, int, Sequence[int]], Sequence[Task]] | None = (
        None  # server slot, round, cohort -> tasks, the same number per client; at most one part
    )

    # client, one by one
    observe: Callable[[ClientData, Visit], Tree] | None = (
        None  # the client's own data, visit -> `stats.seen` of this round, neither kept nor sent; what is shared decides its names and shapes
    )
    prepare: Callable[[ClientData, Visit], tuple[ClientData, Tree]] | None = (
        None  # data, visit -> data, memory; without `enroll` the memory may have any shape, and no other hook sees it
    )

    # client, stacked: no Python branch on a tensor, no .item(), no in-place operation, no randomness
    start: Callable[[Params, Tree, Tree, Stats], Tree] | None = (
        None  # params, shared, memory, stats -> step slot
    )
    loss: Callable[[Outputs, Batch, Tree], Tensor] | None = (
        None  # outputs, batch, slot -> [B]; at most one part
    )
    weight: Callable[[Outputs, Batch, Tree], Tensor] | None = (
        None  # -> [B] factor on each sample's loss; all multiply
    )
    gradient: Callable[[Tree, Step], tuple[Gradient, Tree]] | None = (
        None  # where gradients come from; at most one part
    )
    adjust: Callable[[Params, Tree, Step], tuple[Params, Tree]] | None = None  # a chain in listed order
    finish: Callable[[Params, Tree, Tree, Stats], tuple[Tree, Tree]] | None = (
        None  # delta, slot, memory, stats -> upload, memory
    )

    # server, after a round
    choose: Callable[[Tree, Replies, Judge], tuple[Tensor, Tree]] | None = (
        None  # server slot, replies, judge -> rows [K] of the replies to use, slot; at most one part
    )
    weigh: Callable[[Tensor, Tree, Exchange], tuple[Tensor, Tree]] | None = (
        None  # weights [K], slot, exchange -> weights, slot; a chain in listed order
    )
    treat: Callable[[Params, Tree, Exchange], Params] | None = (
        None  # deltas [K, ...], slot, exchange -> deltas, before they are averaged; a chain in listed order
    )
    update: Callable[[Params, Tree, Exchange], tuple[Params, Tree]] | None = (
        None  # delta, slot, exchange; a chain
    )

    # the model that is scored and saved, where it is not the one that is trained
    present: Callable[[Params, Params, Tree], tuple[Params, Params]] | None = (
        None  # params, buffers, server slot -> params, buffers; a chain in listed order
    )

    # the model that a client itself would use, where it is not the one that all share
    own: Callable[[Params, Params, Tree], tuple[Params, Params]] | None = (
        None  # params, buffers, memory -> params, buffers; a chain in listed order
    )

    note: Callable[[Census], str] | None = (
        None  # one line that whoever starts the run should read, kept in its record; empty: none
    )
    charts: tuple[Chart, ...] = ()  # what the report shows of the server slot
    server_samples: bool = False  # whether `update` measures models on samples of the server's own
    curbs_outliers: bool = False  # whether what few clients send may count for less or nothing, also where only they hold a class
    relabels: bool = (
        False  # whether `prepare` changes labels, so that it must act before others prepare by them
    )
    private: Privacy | None = (
        None  # `treat` makes the mean of the updates private, by the run's secret key or repeatably by its seed
    )
    reveals: Reveals = SILENT  # in words; a part with `survey`, `tally` or `finish` must say it
    replaces_weights: bool = False  # whether `weigh` ignores the weights that it is given

    def hooks(self) -> list[str]:
        """Names of the hooks this part fills."""
        return [field.name for field in fields(self) if callable(getattr(self, field.name))]


def whole_slot(slot: Tree, round: int) -> Tree:
    """A `send` that shares all that the part keeps on the server."""
    return slot


def call(hook: Callable[..., Any] | None, default: Any, *given: Any) -> Any:
    """The hook's result, or the default where a part leaves the hook empty."""
    return default if hook is None else hook(*given)
