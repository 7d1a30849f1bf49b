"""A table as text, whatever file it came from, and what a cell of it means."""

from __future__ import annotations

import math
from collections.abc import Sequence
from pathlib import Path
from typing import NamedTuple

import numpy as np

from counterpoise.data.columns import Numbers
from counterpoise.data.own.faults import brief, fault
from counterpoise.data.own.limits import MAX_NUMBER, MAX_WORD
from counterpoise.data.partition import Rows

MISSING = frozenset({"", "?", "na", "n/a", "nan", "null", "none"})


class Table(NamedTuple):
    """Columns of stripped text; `rows` gives the place of each record in the file, for errors."""

    path: Path
    columns: dict[str, Sequence[str]]
    rows: Sequence[int]
    words: frozenset[str] = frozenset()  # columns whose type says words, even where they look like numbers
    notes: tuple[str, ...] = ()


class Coded(NamedTuple):
    """Names in order, and the place of each record's name among them."""

    names: tuple[str, ...]
    codes: Rows  # [n]


def is_missing(cell: str) -> bool:
    return cell.lower() in MISSING


def parse_number(cell: str) -> float | None:
    """The number a cell spells, which may be infinite, or None; Python's own 1_000 is no number in a file."""
    if "_" in cell:
        return None
    try:
        return float(cell)
    except ValueError:
        return None


def numbers_of(table: Table, name: str) -> Numbers:
    """A column as numbers, NaN where a cell is missing; anything else is refused with its row."""
    return np.array([_number(table, name, place) for place in range(len(table.rows))], dtype=np.float64)


def _number(table: Table, name: str, place: int) -> float:
    cell = table.columns[name][place]
    if is_missing(cell):
        return math.nan
    value = parse_number(cell)
    if value is None:
        reason = f"{name!r} holds {brief(cell)} where numbers are due; legal: a number, an empty cell, or the column among `categorical`"
        raise fault(table.path, reason, table.rows[place])
    if not abs(value) <= MAX_NUMBER:
        raise fault(table.path, f"{name!r} holds {brief(cell)}; legal: at most {MAX_NUMBER:.4g} in size", table.rows[place])
    return value


def names_of(table: Table, name: str) -> Coded:
    """A label or client column: every cell filled, names sorted, by value where all are numbers."""
    cells = table.columns[name]
    for row, cell in zip(table.rows, cells, strict=True):
        if is_missing(cell):
            raise fault(table.path, f"{name!r} is missing", row)
        check_word(table, name, cell, row)
    names = in_order(set(cells))
    places = {word: place for place, word in enumerate(names)}
    return Coded(names, np.array([places[cell] for cell in cells], dtype=np.int64))


def check_word(table: Table, name: str, cell: str, row: int) -> None:
    if len(cell) > MAX_WORD:
        raise fault(table.path, f"{name!r} holds {len(cell):,} characters; legal: at most {MAX_WORD}", row)


def in_order(words: set[str]) -> tuple[str, ...]:
    """Sorted by value where all are numbers (2 before 10), else as text."""
    values = {word: parse_number(word) for word in words}
    numbers = {word: value for word, value in values.items() if value is not None and math.isfinite(value)}
    if len(numbers) == len(words):
        return tuple(sorted(words, key=lambda word: (numbers[word], word)))
    return tuple(sorted(words))
