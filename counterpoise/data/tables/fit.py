"""Fitting an encoder: which columns are numbers and which words, statistics of the training rows, and notes on them."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Collection, Iterable, Mapping
from typing import NamedTuple

import numpy as np

from counterpoise.data.faults import MAX_CATEGORIES, fault
from counterpoise.data.tables.cells import (
    MISSING_WORD,
    Numbers,
    Table,
    is_missing,
    numbers_of,
    parse_number,
    words_of,
)
from counterpoise.data.tables.commas import decimal_commas
from counterpoise.data.tables.encoder import OTHER_WORD, Encoder, Number, check_size
from counterpoise.data.tables.identifiers import drop_key, identifier_notes, number_note
from counterpoise.data.types import Rows
from counterpoise.errors import listed, short


class Fitted(NamedTuple):
    """An encoder, the number columns that were read, and the constant ones that were dropped."""

    encoder: Encoder
    numbers: Mapping[str, Numbers]
    constant: list[str]


def fit_table(
    table: Table,
    names: Iterable[str],
    train_rows: Rows,
    numeric: Collection[str] = (),
    categorical: Collection[str] = (),
) -> Fitted:
    """The encoder of the named columns: statistics and categories are those of the training rows.

    The other rows decide two things: a number has an indicator if any row lacks it, and a column of words has the
    category "(other)" if a word occurs outside the training rows alone. A column that is constant over the training
    rows, missing cells included, is dropped.
    """
    train = train_rows.tolist()
    numbers: dict[str, Numbers] = {}
    words: dict[str, tuple[str, ...]] = {}
    constant = []
    for name in names:
        if len({table.columns[name][row] for row in train}) == 1:
            constant.append(name)
        elif is_numeric(table, name, numeric, categorical):
            numbers[name] = numbers_of(table, name)
        else:
            words[name] = _categories(table, name, train)
    if not numbers and not words:
        raise fault(table.path, "no column to learn from: all are constant over the training rows")
    check_size(table, 2 * len(numbers) + sum(map(len, words.values())), len(numbers))
    centres = {name: _median(values[train_rows]) for name, values in numbers.items()}
    return Fitted(Encoder(fit_numbers(numbers, centres, train_rows), words), numbers, constant)


def fit_numbers(
    numbers: Mapping[str, Numbers], centres: Mapping[str, float], rows: Rows
) -> dict[str, Number]:
    """Medians, means and deviations of the given rows alone."""
    if not numbers:
        return {}
    # All columns in one array: the rounding of a sum depends on the memory layout.
    table = np.column_stack([values[rows] - centres[name] for name, values in numbers.items()])
    gaps = np.array([_median(column) for column in table.T])
    table = np.where(np.isnan(table), gaps, table)
    mean, deviation = table.mean(axis=0), table.std(axis=0)
    state = np.stack([gaps, mean, np.where(deviation > 0, deviation, 1.0)], axis=1).tolist()
    return {
        name: Number(centres[name], gap, middle, width, bool(np.isnan(numbers[name]).any()))
        for name, (gap, middle, width) in zip(numbers, state, strict=True)
    }


def _median(values: Numbers) -> float:
    """Of the values that are not NaN; 0 where there are none."""
    known = values[~np.isnan(values)]
    return float(np.median(known)) if len(known) else 0.0


def is_numeric(
    table: Table, name: str, numeric: Collection[str] = (), categorical: Collection[str] = ()
) -> bool:
    """Whether a column holds numbers; a few words among numbers are refused with their row."""
    if name in numeric or name in categorical:
        return name in numeric
    if name in table.words:
        return False
    filled = Counter(cell for cell in table.columns[name] if not is_missing(cell))
    not_numbers = {cell: count for cell, count in filled.items() if parse_number(cell) is None}
    if not_numbers and 2 * sum(not_numbers.values()) < filled.total():
        row, cell = next(
            (row, cell)
            for row, cell in zip(table.rows, table.columns[name], strict=True)
            if cell in not_numbers
        )
        reason = f'{name!r} holds {short(cell)} among numbers; correct it (a gap is an empty cell), leave such rows out (on_error = "skip", init --skip), or name the column in `categorical`'
        raise fault(table.path, reason, row)
    return not not_numbers


def _categories(table: Table, name: str, train: list[int]) -> tuple[str, ...]:
    """The words of the training rows, and "(other)" where other rows have further words."""
    cells = words_of(table, name)
    known = {cells[row] for row in train}
    if len(known) > MAX_CATEGORIES:
        comma = decimal_commas(_filled(table, name))
        point = "" if comma is None else f", or a decimal point in place of the comma in {short(comma)}"
        reason = f"column {name!r} holds {len(known):,} categories; at most {MAX_CATEGORIES:,}{point}; {drop_key(name)} leaves it out"
        raise fault(table.path, reason)
    return tuple(sorted(known | {OTHER_WORD} if set(cells) - known else known))


def _filled(table: Table, name: str) -> set[str]:
    return {cell for cell in table.columns[name] if not is_missing(cell)}


def fit_notes(fitted: Fitted) -> tuple[str, ...]:
    """Notes on how the columns were encoded."""
    words = fitted.encoder.words
    groups = {
        "numbers, standardised by the training rows": list(fitted.numbers),
        "words, one-hot": list(words),
        "missing words are a category of their own": _holding(MISSING_WORD, words),
        "words that no training row holds share one category": _holding(OTHER_WORD, words),
        "constant over the training rows, dropped": fitted.constant,
    }
    notes = [f"{what}: {listed(names)}" for what, names in groups.items() if names]
    return (*gap_note(fitted.numbers), *notes)


def gap_note(numbers: Mapping[str, Numbers]) -> tuple[str, ...]:
    counts = {name: int(np.isnan(values).sum()) for name, values in numbers.items()}
    filled = ", ".join(f"{name} {count}" for name, count in counts.items() if count)
    if not filled:
        return ()
    return (f"missing numbers take the median of the training rows and an indicator column: {filled}",)


def column_warnings(
    table: Table,
    fitted: Fitted,
    numeric: Collection[str] = (),
    categorical: Collection[str] = (),
    drop: Callable[[str], str] = drop_key,
) -> tuple[str, ...]:
    """Columns that look like identifiers or row numbers, unless named; `drop` says how to leave one out."""
    words = {name: _filled(table, name) for name in fitted.encoder.words if name not in categorical}
    counts = (
        number_note(name, values, drop) for name, values in fitted.numbers.items() if name not in numeric
    )
    return (*identifier_notes(words, len(table.rows), drop), *filter(None, counts))


def _holding(category: str, words: Mapping[str, tuple[str, ...]]) -> list[str]:
    return [name for name, kinds in words.items() if category in kinds]
