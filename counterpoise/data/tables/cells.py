"""A table as text, from any kind of file, and how its cells are read."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from counterpoise.data.faults import MAX_NUMBER, MAX_WORD, fault
from counterpoise.data.types import Rows
from counterpoise.errors import short

Numbers = NDArray[np.float64]

MISSING_WORD = "(missing)"
NAMELESS = frozenset({"", "?", "nan"})
MISSING = NAMELESS | {
    "na",
    "n/a",
    "#n/a",
    "<na>",
    "nat",
    "null",
    "none",
}  # the added ones may name a class or a client


class Table(NamedTuple):
    """Columns of stripped text; `rows` gives the row of each record in the file, for errors."""

    path: Path
    columns: Mapping[str, Sequence[str]]
    rows: Sequence[int]
    header: int | None = None  # its row, where there is one
    words: frozenset[str] = frozenset()  # columns of a text type, even where their cells look like numbers
    notes: tuple[str, ...] = ()


class Coded(NamedTuple):
    """Sorted names, and the index of each record's name among them."""

    names: tuple[str, ...]
    codes: Rows  # [n]


def is_missing(cell: str) -> bool:
    return cell.lower() in MISSING


def is_nameless(cell: str) -> bool:
    """Whether a cell names no class and no client."""
    return cell.lower() in NAMELESS


def parse_number(cell: str) -> float | None:
    """The number a cell spells, which may be infinite, or None; 1_000, which Python accepts, is not a number in a file."""
    if "_" in cell:
        return None
    try:
        return float(cell)
    except ValueError:
        return None


def numbers_of(table: Table, name: str) -> Numbers:
    """A column as numbers, NaN where a cell is missing; anything else is refused with its row."""
    cells = table.columns[name]
    spelled = {cell: math.nan if is_missing(cell) else parse_number(cell) for cell in set(cells)}
    values = {
        cell: value for cell, value in spelled.items() if value is not None and not abs(value) > MAX_NUMBER
    }
    if len(values) < len(spelled):
        row, cell = next(
            (row, cell) for row, cell in zip(table.rows, cells, strict=True) if cell not in values
        )
        size = "" if spelled[cell] is None else f" of at most {MAX_NUMBER:.4g} in size"
        reason = f"{name!r} holds {short(cell)}; needs a number{size}, or nothing"
        raise fault(table.path, reason, row)
    return np.array([values[cell] for cell in cells], dtype=np.float64)


def words_of(table: Table, name: str) -> list[str]:
    """A column as words, missing cells in any spelling as one word."""
    cells = table.columns[name]
    words = {cell: MISSING_WORD if is_missing(cell) else cell for cell in set(cells)}
    return [words[cell] for cell in cells]


def names_of(table: Table, name: str) -> Coded:
    """A label or client column without missing cells, its names sorted."""
    for row, cell in zip(table.rows, table.columns[name], strict=True):
        if is_nameless(cell):
            raise fault(table.path, f"{name!r} is missing", row)
        if len(cell) > MAX_WORD:
            raise fault(table.path, f"{name!r} holds {len(cell):,} characters; at most {MAX_WORD}", row)
    return coded(table.columns[name])


def coded(words: Sequence[str]) -> Coded:
    names = in_order(set(words))
    places = {name: place for place, name in enumerate(names)}
    return Coded(names, np.array([places[word] for word in words], dtype=np.int64))


def in_order(words: set[str]) -> tuple[str, ...]:
    """Sorted by value where all are numbers (2 before 10), else as text."""
    values = {word: parse_number(word) for word in words}
    numbers = {word: value for word, value in values.items() if value is not None and math.isfinite(value)}
    if len(numbers) == len(words):
        return tuple(sorted(words, key=lambda word: (numbers[word], word)))
    return tuple(sorted(words))
