"""The grids of tuning: which keys they may have, which apply to a method, and a random subset of large ones."""

from __future__ import annotations

import math
from collections.abc import Collection
from typing import Any

from counterpoise.core.rng import numpy_generator
from counterpoise.errors import ConfigError, legal_words
from counterpoise.sweep.specs import Grid, pieces_of
from counterpoise.sweep.sweep import MethodEntry, Sweep, Tune


def grid_of(entry: MethodEntry, tune: Tune) -> Grid:
    """The grid of a method: the common keys that apply to it, and its own."""
    pieces = pieces_of(entry.method)
    common = {key: values for key, values in tune.grid.items() if _piece(key) in (None, *pieces)}
    return common | entry.grid


def draw_settings(grid: Grid, budget: int, label: str) -> list[dict[str, Any]]:
    """All combinations of a grid, or as many as the budget allows, drawn with a seed that depends only on the label."""
    total = math.prod(map(len, grid.values()))
    numbers = list(range(min(total, budget)))
    if total > budget:
        numbers = sorted(numpy_generator(0, "tune", label).choice(total, budget, replace=False).tolist())
    return [_combination(grid, number) for number in numbers]


def check_grids(sweep: Sweep) -> None:
    """Refuse keys that change the problem: a grid may only change how a method learns."""
    assert sweep.tune is not None
    known = {piece for entry in sweep.methods for piece in pieces_of(entry.method)}
    for key in sweep.tune.grid:
        _check_key(f"tune.grid: {key}", key, known)
    for entry in sweep.methods:
        for key in entry.grid:
            _check_key(f"grid of {entry.name}: {key}", key, {*pieces_of(entry.method)})


def _combination(grid: Grid, number: int) -> dict[str, Any]:
    setting = {}
    for key, values in grid.items():
        number, place = divmod(number, len(values))
        setting[key] = values[place]
    return setting


def _check_key(source: str, key: str, pieces: Collection[str]) -> None:
    if key.startswith("local.") and key.count(".") == 1:
        return
    if not key.startswith("method.") or key.count(".") != 2:
        raise ConfigError(f"{source} must be local.KEY, or method.NAME.ARGUMENT such as method.fedprox.mu")
    if (piece := str(_piece(key))) not in pieces:
        raise ConfigError(f"{source}: no method of this name to tune; {legal_words(piece, pieces)}")


def _piece(key: str) -> str | None:
    """The method or part that a key refers to, if any."""
    first, *rest = key.split(".")
    return rest[0] if first == "method" and rest else None
