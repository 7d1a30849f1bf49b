"""Columns of text as model inputs: which are numbers, which are words, and what stands for a gap or an unseen word."""

from __future__ import annotations

from collections.abc import Collection, Iterable

import numpy as np

from counterpoise.data.columns import Encoded, Numbers, TrainTest, Words, encode
from counterpoise.data.own.cells import Table, check_word, is_missing, numbers_of, parse_number
from counterpoise.data.own.faults import brief, fault
from counterpoise.data.own.limits import MAX_BYTES, MAX_CATEGORIES
from counterpoise.data.partition import Rows

MISSING_WORD = "(missing)"
OTHER_WORD = "(other)"
BYTES_A_FEATURE = 4


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
    numbers: dict[str, Numbers] = {}
    words: dict[str, Words] = {}
    constant, unseen = [], []
    for name in names:
        if len({table.columns[name][row] for row in split.train}) == 1:
            constant.append(name)
        elif _is_numeric(table, name, numeric, categorical):
            numbers[name] = _centred(numbers_of(table, name), split.train)
        else:
            words[name] = _words(table, name, split.train)
            unseen += [name] if OTHER_WORD in words[name][split.test] else []
    if not numbers and not words:
        raise fault(
            table.path, "no column to learn from: beside the label, all are constant over the training rows"
        )
    _check_size(table, len(numbers), words)
    with np.errstate(over="ignore"):  # an overflow is found by its row below
        encoded = encode(numbers, words, split.train)
    _check_finite(table, encoded)
    return encoded._replace(notes=(*encoded.notes, *_notes(numbers, words, constant, unseen)))


def _is_numeric(table: Table, name: str, numeric: Collection[str], categorical: Collection[str]) -> bool:
    if name in numeric or name in categorical:
        return name in numeric
    if name in table.words:
        return False
    filled = [place for place, cell in enumerate(table.columns[name]) if not is_missing(cell)]
    odd = [place for place in filled if parse_number(table.columns[name][place]) is None]
    if odd and 2 * len(odd) < len(filled):
        cell, row = table.columns[name][odd[0]], table.rows[odd[0]]
        reason = f"{name!r} holds {brief(cell)} among numbers; mend it, or name the column in `categorical`"
        raise fault(table.path, reason, row)
    return not odd


def _centred(values: Numbers, train: Rows) -> Numbers:
    """Less the median of the training rows: standardising undoes it, but loses fewer digits near zero."""
    known = values[train][~np.isnan(values[train])]
    return values - np.median(known) if len(known) else values


def _words(table: Table, name: str, train: Rows) -> Words:
    cells = [MISSING_WORD if is_missing(cell) else cell for cell in table.columns[name]]
    known = {cells[row] for row in train}
    if len(known) > MAX_CATEGORIES:
        raise fault(
            table.path, f"column {name!r} holds {len(known):,} categories; legal: at most {MAX_CATEGORIES:,}"
        )
    for cell, row in zip(cells, table.rows, strict=True):
        check_word(table, name, cell, row)
    return np.array([cell if cell in known else OTHER_WORD for cell in cells])


def _check_size(table: Table, numbers: int, words: dict[str, Words]) -> None:
    width = 2 * numbers + sum(len(set(values.tolist())) for values in words.values())
    if len(table.rows) * width * BYTES_A_FEATURE > MAX_BYTES:
        raise fault(
            table.path,
            f"{len(table.rows):,} rows of up to {width:,} features; legal: at most {MAX_BYTES:,} bytes of them",
        )


def _check_finite(table: Table, encoded: Encoded) -> None:
    bad = np.argwhere(~np.isfinite(encoded.x))
    if len(bad):
        place, column = bad[0]
        raise fault(
            table.path,
            f"{encoded.names[column]!r} is too far from the other rows to standardise",
            table.rows[place],
        )


def _notes(
    numbers: dict[str, Numbers], words: dict[str, Words], constant: list[str], unseen: list[str]
) -> list[str]:
    gappy = [name for name, values in words.items() if MISSING_WORD in values]
    said = {
        "numbers, standardised by the training rows": list(numbers),
        "words, one-hot": list(words),
        "missing words are a category of their own": gappy,
        "words that no training row holds share one category": unseen,
        "constant over the training rows, dropped": constant,
    }
    return [f"{what}: {', '.join(names)}" for what, names in said.items() if names]
