"""Constants that a loss derives from class counts: the client's own, or those of all clients, of which only the sum is known."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Literal, TypeAlias

import torch
from torch import Tensor

from counterpoise.core.part import Census, ClientData, Part, Reveals, Stats, whole_slot
from counterpoise.core.tree import Params, Tree, tmap

Counts: TypeAlias = Literal["local", "global"]

OF_EACH_CLASS = "how many samples there are of each class"
SUM_OF_COUNTS = Reveals(tally=OF_EACH_CLASS)


def class_counts(data: ClientData, classes: int) -> Tree:
    """A client's samples of each class."""
    return {"counts": torch.bincount(data.labels, minlength=classes)}


def from_counts(constants: Callable[[Tensor], Tree], counts: Counts, **hooks: Any) -> Part:
    """A part whose step slot is ``constants(class counts)``; counts come as float64 [C]."""

    def init(params: Params, census: Census, tallied: Tree) -> Tree:
        return tallied

    def start_global(params: Params, shared: Tree, memory: Tree, stats: Stats) -> Tree:
        return _as_model(constants(shared["counts"].double()), stats)

    def start_local(params: Params, shared: Tree, memory: Tree, stats: Stats) -> Tree:
        return _as_model(constants(stats.counts.double()), stats)

    if counts == "local":
        return Part(start=start_local, **hooks)
    return Part(
        tally=class_counts, init=init, send=whole_slot, start=start_global, reveals=SUM_OF_COUNTS, **hooks
    )


def _as_model(constants: Tree, stats: Stats) -> Tree:
    return tmap(lambda value: value.to(stats.lr), constants)
