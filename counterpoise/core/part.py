"""A part is one idea of one paper: a frozen bundle of pure hooks, its client half and its server half together."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, fields
from typing import Any, Literal, NamedTuple, TypeAlias

from torch import Tensor, nn

from counterpoise.core.messages import Replies, Task
from counterpoise.core.tree import Params, Tree

# A part's author finds in one place what hooks are made of and what they see.
from counterpoise.core.views import Batch as Batch
from counterpoise.core.views import Census as Census
from counterpoise.core.views import ClientData as ClientData
from counterpoise.core.views import Exchange as Exchange
from counterpoise.core.views import Gradient as Gradient
from counterpoise.core.views import Judge as Judge
from counterpoise.core.views import Look as Look
from counterpoise.core.views import Measure as Measure
from counterpoise.core.views import Measurement as Measurement
from counterpoise.core.views import Objective as Objective
from counterpoise.core.views import Outputs as Outputs
from counterpoise.core.views import Pair as Pair
from counterpoise.core.views import Stats as Stats
from counterpoise.core.views import Step as Step
from counterpoise.core.views import Visit as Visit
from counterpoise.core.views import first_round as first_round
from counterpoise.core.views import round_at as round_at

# Who can work out the noise: the server, or whoever knows the seed
Privacy: TypeAlias = Literal["secret", "repeatable"]


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
    every_round: bool = False  # recorded in rounds that are not scored too


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

    # == once ==

    adapt: Callable[[nn.Module], nn.Module] | None = None  # change the model before its parameters are drawn
    # data, classes -> what the server gets before round 0
    survey: Callable[[ClientData, int], Tree] | None = None
    # data, classes -> whole numbers, of which the server gets only the sum over all clients
    tally: Callable[[ClientData, int], Tree] | None = None
    # params, census, surveys [N, ...] or the sum of tallies -> server slot
    init: Callable[[Params, Census, Tree], Tree] | None = None
    # params, buffers, classes -> a client's first memory
    enroll: Callable[[Params, Params, int], Tree] | None = None

    # == server, before a round ==

    # server slot, round -> what every client of the round gets
    send: Callable[[Tree, int], Tree] | None = None

    # server slot, round, cohort -> tasks, the same number per client; at most one part
    propose: Callable[[Tree, int, Sequence[int]], Sequence[Task]] | None = None

    # == client, one by one ==

    # the client's own data, visit -> `stats.seen` of this round, neither kept nor sent; what is shared decides its names and shapes
    observe: Callable[[ClientData, Visit], Tree] | None = None
    # data, visit -> data, memory; without `enroll` the memory may have any shape, and no other hook sees it
    prepare: Callable[[ClientData, Visit], tuple[ClientData, Tree]] | None = None

    # == client, stacked: no Python branch on a tensor, no .item(), no in-place operation, no randomness ==

    # params, shared, memory, stats -> step slot
    start: Callable[[Params, Tree, Tree, Stats], Tree] | None = None
    # outputs, batch, slot -> [B]; at most one part
    loss: Callable[[Outputs, Batch, Tree], Tensor] | None = None
    # -> [B] factor on each sample's loss; all multiply
    weight: Callable[[Outputs, Batch, Tree], Tensor] | None = None
    # -> [B] added to each sample's weighted loss, or [] a term of the whole batch, by its real samples; all add
    penalty: Callable[[Outputs, Batch, Tree], Tensor] | None = None
    # where gradients come from; at most one part
    gradient: Callable[[Tree, Step], tuple[Gradient, Tree]] | None = None
    adjust: Callable[[Params, Tree, Step], tuple[Params, Tree]] | None = None  # a chain in listed order
    # delta, slot, memory, stats -> upload, memory
    finish: Callable[[Params, Tree, Tree, Stats], tuple[Tree, Tree]] | None = None

    # == server, after a round ==

    # server slot, replies, judge -> rows [K] of the replies to use, slot; at most one part
    choose: Callable[[Tree, Replies, Judge], tuple[Tensor, Tree]] | None = None
    # weights [K], slot, exchange -> weights, slot; a chain in listed order
    weigh: Callable[[Tensor, Tree, Exchange], tuple[Tensor, Tree]] | None = None
    # deltas [K, ...], slot, exchange -> deltas, before they are averaged; a chain in listed order
    treat: Callable[[Params, Tree, Exchange], Params] | None = None
    # delta, slot, exchange; a chain
    update: Callable[[Params, Tree, Exchange], tuple[Params, Tree]] | None = None

    # == the model that is scored and saved, where it is not the one that is trained ==

    # params, buffers, server slot -> params, buffers; a chain in listed order
    present: Callable[[Params, Params, Tree], tuple[Params, Params]] | None = None

    # == the model that a client itself would use, where it is not the one that all share ==

    # params, buffers, memory -> params, buffers; a chain in listed order
    own: Callable[[Params, Params, Tree], tuple[Params, Params]] | None = None

    # one line that whoever starts the run should read, kept in its record; empty: none
    note: Callable[[Census], str] | None = None
    charts: tuple[Chart, ...] = ()  # what the report shows of the server slot
    server_samples: bool = False  # whether `update` measures models on samples of the server's own
    curbs_outliers: bool = False  # whether what few clients send may count for less or nothing, also where only they hold a class
    alone: bool = False  # whether each client goes on from its own model (`own`), which it keeps, and nothing is averaged
    pools: bool = False  # whether the samples of all clients are put in one place before the run
    follows_server: bool = False  # whether `adjust` mixes the server's last direction in; at most one part
    assumes_sgd: bool = False  # whether its rule holds only for steps ``y - lr direction``: it reads gradients off updates, sets the length of steps, or takes such steps itself
    # whether `prepare` changes labels, so that it must act before others prepare by them
    relabels: bool = False
    # `treat` makes the mean of the updates private, by the run's secret key or repeatably by its seed
    private: Privacy | None = None
    reveals: Reveals = SILENT  # in words; a part with `survey`, `tally` or `finish` must say it
    presents_last: bool = False  # whether `present` must come after every other, which would undo it
    replaces_weights: bool = False  # whether `weigh` ignores the weights that it is given
    extrapolates: bool = False  # whether `weigh` may give negative weights; they sum to 1 all the same

    def hooks(self) -> list[str]:
        """Names of the hooks this part fills."""
        return [field.name for field in fields(self) if callable(getattr(self, field.name))]


def whole_slot(slot: Tree, round: int) -> Tree:
    """A `send` that shares all that the part keeps on the server."""
    return slot


def known_below(value: float | Tensor, limit: float) -> bool:
    """Whether a number is below a limit; a tensor stands for the numbers of several runs, by which nothing is decided."""
    return not isinstance(value, Tensor) and value < limit


def call(hook: Callable[..., Any] | None, default: Any, *given: Any) -> Any:
    """The hook's result, or the default where a part leaves the hook empty."""
    return default if hook is None else hook(*given)
