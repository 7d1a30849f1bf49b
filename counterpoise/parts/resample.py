"""Rare classes repeated: the resampling of paper 000 (FedCGNM), section 3.3, read as spec 2.1.1 to 2.1.4.

The paper prints ``(n_max / n_c)^r`` as a class's number of samples; only as a factor on n_c does it do what the text says.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Annotated

import torch
from torch import Tensor

from counterpoise.core.messages import Task
from counterpoise.core.method import part
from counterpoise.core.part import SILENT, Census, ClientData, Part, Visit
from counterpoise.core.tree import Params, Tree
from counterpoise.errors import ConfigError
from counterpoise.parts.counts import SUM_OF_COUNTS, Counts, class_counts
from counterpoise.registry.schema import Fraction, Interval

PAPER = "FedCGNM, section 3.3"


@part(paper=PAPER, off={"rate": 0.0})
def resample(
    rate: Fraction | list[Fraction] = 0.6,
    counts: Counts = "local",
    cap: Annotated[float, Interval(1)] = 1000.0,
) -> Part:
    """Class c gets ``round(n_c min(cap, (n_max / n_c)^rate))`` samples: all of them so many times, some once more.

    Rate 0 changes nothing, rate 1 makes all present classes equal; a list has one rate for each client. With global counts
    the factor is that of all clients' counts. An epoch is a pass over the longer list. A task's own `rate` takes precedence.
    """

    def init(params: Params, census: Census, tallied: Tree) -> Tree:
        if isinstance(rate, list) and len(rate) != census.clients:
            raise ConfigError(
                f"resample: rate must be one number, or a list of one per client ({census.clients}), not of {len(rate)}"
            )
        return {"counts": tallied["counts"]} if counts == "global" else {}

    def send(slot: Tree, round: int) -> Tree:
        return {"counts": slot["counts"]}

    def propose(slot: Tree, round: int, cohort: Sequence[int]) -> Sequence[Task]:
        assert isinstance(rate, list)
        return [Task(client, {"rate": rate[client]}) for client in cohort]

    def prepare(data: ClientData, visit: Visit) -> tuple[ClientData, Tree]:
        chosen = visit.knobs["rate"] if isinstance(rate, list) else visit.knobs.get("rate", rate)
        if data.strata is not None:
            raise ConfigError("resample must come before the part that draws batches by group; list it first")
        own = torch.bincount(data.labels, minlength=len(visit.shared.get("counts", [0])))
        wanted = wanted_counts(own, visit.shared.get("counts", own), chosen, cap)
        return repeat(data, own, wanted, visit.stream), visit.memory

    return Part(
        tally=class_counts if counts == "global" else None,
        init=init,
        send=send if counts == "global" else None,
        propose=propose if isinstance(rate, list) else None,
        prepare=prepare,
        reveals=SUM_OF_COUNTS if counts == "global" else SILENT,
    )


def wanted_counts(own: Tensor, known: Tensor, rate: float, cap: float) -> Tensor:
    """[C] samples of each class after resampling, halves rounded up; the factor goes by the known counts."""
    factor = (known.max() / known.double().clamp(min=1)).pow(rate).clamp(max=cap)
    return (own * factor + 0.5).floor().long()


def repeat(data: ClientData, own: Tensor, wanted: Tensor, stream: torch.Generator) -> ClientData:
    """Every sample as often as its class needs, in the old order; which ones get one more copy is drawn."""
    labels = data.labels
    times, more = wanted // own.clamp(min=1), wanted % own.clamp(min=1)
    repeats = times[labels] + (places_in_class(labels, own, stream) < more[labels])
    positions = torch.repeat_interleave(repeats)
    chances = data.chances
    if chances is not None:
        # With chances the share of each class is set already: resampling then only lengthens the epoch.
        chances = (chances * (own / wanted.clamp(min=1))[labels])[positions]
    return data._replace(rows=data.rows[positions], labels=labels[positions], chances=chances)


def places_in_class(labels: Tensor, own: Tensor, stream: torch.Generator) -> Tensor:
    """[n] place of each sample in a drawn order of its class."""
    order = torch.randperm(len(labels), generator=stream)
    by_class = order[labels[order].argsort(stable=True)]
    first = torch.cat([own.new_zeros(1), own.cumsum(0)[:-1]])
    place = torch.empty_like(labels)
    place[by_class] = torch.arange(len(labels)) - first[labels[by_class]]
    return place
