"""Columns of text as model inputs: which are numbers, which are words, and what stands for a gap or an unseen word."""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Iterable
from typing import NamedTuple

import numpy as np

from counterpoise.data.columns import Encoded, Numbers, TrainTest, Words, encode
from counterpoise.data.own.cells import Table, is_missing, numbers_of, parse_number
from counterpoise.data.own.faults import brief, fault
from counterpoise.data.own.identifiers import decimal_commas, drop_key, identifier_notes, number_note
from counterpoise.data.own.limits import MAX_BYTES, MAX_CATEGORIES
from counterpoise.data.partition import Rows
from counterpoise.errors import DataError, listed
from counterpoise.system.capacity import check_fits

MISSING_WORD = "(missing)"
OTHER_WORD = "(other)"
BYTES_A_FEATURE = 4  # twice: all rows, and then those of the training and of the test
BYTES_A_NUMBER = 40  # of a cell that is centred, filled and standardised
BYTES_A_NAME = 80


class Category(NamedTuple):
    """A column of words as short codes, since an array of words is as wide as the longest, and the words in order."""

    codes: Words
    names: list[str]


def features_of(
    table: Table,
    names: Iterable[str],
    split: TrainTest,
    numeric: Collection[str],
    categorical: Collection[str],
) -> Encoded:
    """Inputs of the named columns: statistics and categories are those of the training rows.

    A column that is constant over the training rows, gaps included, says nothing and is dropped.
    """
    train = split.train.tolist()
    numbers: dict[str, Numbers] = {}
    words: dict[str, Category] = {}
    constant, odd = [], []
    for name in names:
        if len({table.columns[name][row] for row in train}) == 1:
            constant.append(name)
        elif _is_numeric(table, name, numeric, categorical):
            values = numbers_of(table, name)
            odd += [number_note(name, values)] if name not in numeric else []
            numbers[name] = _centred(values, split.train)
        else:
            words[name] = _category(table, name, train)
    if not numbers and not words:
        raise fault(table.path, "no column to learn from: all are constant over the training rows")
    _check_size(table, len(numbers), sum(len(word.names) for word in words.values()))
    with np.errstate(over="ignore"):  # an overflow is found by its row below
        encoded = encode(numbers, {name: word.codes for name, word in words.items()}, split.train)
    _check_finite(table, encoded)
    guessed = {name: _filled(table, name) for name in words if name not in categorical}
    notes = (
        *_notes(list(numbers), words, constant),
        *identifier_notes(guessed, len(table.rows)),
        *filter(None, odd),
    )
    return encoded._replace(notes=(*encoded.notes, *notes))


def _filled(table: Table, name: str) -> set[str]:
    return {cell for cell in table.columns[name] if not is_missing(cell)}


def _is_numeric(table: Table, name: str, numeric: Collection[str], categorical: Collection[str]) -> bool:
    if name in numeric or name in categorical:
        return name in numeric
    if name in table.words:
        return False
    filled = Counter(cell for cell in table.columns[name] if not is_missing(cell))
    odd = {cell: count for cell, count in filled.items() if parse_number(cell) is None}
    if odd and 2 * sum(odd.values()) < filled.total():
        row, cell = next(
            (row, cell) for row, cell in zip(table.rows, table.columns[name], strict=True) if cell in odd
        )
        reason = f"{name!r} holds {brief(cell)} among numbers; mend it, or name the column in `categorical`"
        raise fault(table.path, reason, row)
    return not odd


def _centred(values: Numbers, train: Rows) -> Numbers:
    """Less the median of the training rows, so that a number that never varies there is 0 and not a rounding error."""
    known = values[train][~np.isnan(values[train])]
    return values - np.median(known) if len(known) else values


def _category(table: Table, name: str, train: list[int]) -> Category:
    cells = [MISSING_WORD if is_missing(cell) else cell for cell in table.columns[name]]
    known = {cells[row] for row in train}
    if len(known) > MAX_CATEGORIES:
        comma = decimal_commas(_filled(table, name))
        point = "" if comma is None else f", or a decimal point in place of the comma in {brief(comma)}"
        reason = f"column {name!r} holds {len(known):,} categories; legal: at most {MAX_CATEGORIES:,}{point}; {drop_key(name)} leaves it out"
        raise fault(table.path, reason)
    words = [cell if cell in known else OTHER_WORD for cell in cells]
    names = sorted(set(words))
    places = {word: f"{place:04}" for place, word in enumerate(names)}
    return Category(np.array([places[word] for word in words]), names)


def _check_size(table: Table, numbers: int, kinds: int) -> None:
    """Before columns are encoded: a column of words becomes as many inputs as it has kinds of them."""
    rows, width = len(table.rows), 2 * numbers + kinds
    if rows * width * BYTES_A_FEATURE > MAX_BYTES:
        reason = f"{rows:,} rows of {width:,} features; legal: at most {MAX_BYTES:,} bytes of them"
        raise fault(table.path, reason)
    needed = (
        rows * (numbers * BYTES_A_NUMBER + (numbers + kinds) * 2 * BYTES_A_FEATURE) + width * BYTES_A_NAME
    )
    check_fits(needed, f"{table.path}: {rows:,} rows of {width:,} features", DataError)


def _check_finite(table: Table, encoded: Encoded) -> None:
    finite = np.isfinite(encoded.x)
    if not finite.all():
        place, column = divmod(int(finite.argmin()), finite.shape[1])
        reason = f"{encoded.names[column]!r} is too far from the training rows to standardise"
        raise fault(table.path, reason, table.rows[place])


def _notes(numbers: list[str], words: dict[str, Category], constant: list[str]) -> list[str]:
    said = {
        "numbers, standardised by the training rows": numbers,
        "words, one-hot": list(words),
        "missing words are a category of their own": _holding(MISSING_WORD, words),
        "words that no training row holds share one category": _holding(OTHER_WORD, words),
        "constant over the training rows, dropped": constant,
    }
    return [f"{what}: {listed(names)}" for what, names in said.items() if names]


def _holding(category: str, words: dict[str, Category]) -> list[str]:
    return [name for name, word in words.items() if category in word.names]
