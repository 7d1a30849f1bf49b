"""Tables as model inputs: one-hot words, standardised numbers, filled gaps, stratified splits. Arrays in, arrays out."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from counterpoise.data.partition import Rows
from counterpoise.errors import DataError

Numbers = NDArray[np.float64]
Words = NDArray[np.str_]
Inputs = NDArray[np.float32]


class Encoded(NamedTuple):
    """Model inputs with the name of each, and in words what was filled in."""

    x: Inputs  # [n, d]
    names: tuple[str, ...]  # age, ca missing, workclass=Private, ...
    notes: tuple[str, ...] = ()


class TrainTest(NamedTuple):
    """Two disjoint, sorted sets of rows."""

    train: Rows
    test: Rows


def encode(numbers: Mapping[str, Numbers], words: Mapping[str, Words], fit: Rows) -> Encoded:
    """Numbers first (NaN is missing), standardised; then an indicator for each number with gaps; then one-hot words.

    Means, deviations and medians come from the rows in `fit` alone; the categories of a word from all rows.
    """
    table = np.column_stack(list(numbers.values())) if numbers else np.empty((_length(words), 0))
    gaps = np.isnan(table)
    gappy = np.flatnonzero(gaps.any(axis=0))
    coded = [np.unique(values, return_inverse=True) for values in words.values()]
    kinds = [
        f"{name}={kind}" for name, (kinds, _) in zip(words, coded, strict=True) for kind in kinds.tolist()
    ]
    names = list(numbers)
    columns = (*names, *(f"{names[j]} missing" for j in gappy), *kinds)
    # One array from the start: words of many kinds make it far larger than the table.
    x = np.zeros((len(table), len(columns)), np.float32)
    x[:, : len(names)] = standardise(fill_gaps(table, fit), fit)
    x[:, len(names) : len(names) + len(gappy)] = gaps[:, gappy]
    _mark_kinds(x[:, len(names) + len(gappy) :], coded)
    return Encoded(x, columns, _gap_notes(names, gaps))


def standardise(table: Numbers, fit: Rows) -> Numbers:
    """Each column to zero mean and unit deviation over the rows in `fit`; a constant column becomes 0."""
    mean, deviation = table[fit].mean(axis=0), table[fit].std(axis=0)
    scaled: Numbers = (table - mean) / np.where(deviation > 0, deviation, 1.0)
    return scaled


def fill_gaps(table: Numbers, fit: Rows) -> Numbers:
    """NaN to the median of the column's known values in `fit`; 0 where none is known."""
    known = [column[~np.isnan(column)] for column in table[fit].T]
    medians = np.array([np.median(column) if len(column) else 0.0 for column in known])
    return np.where(np.isnan(table), medians, table)


def _mark_kinds(x: Inputs, coded: Sequence[tuple[Words, Rows]]) -> None:
    """One-hot words side by side: in each row a 1 for the kind of each word, kinds in alphabetical order."""
    first = 0
    for kinds, codes in coded:
        x[np.arange(len(codes)), first + codes] = 1
        first += len(kinds)


def classes_by_frequency(labels: Words) -> tuple[str, ...]:
    """The most frequent label first; equal ones in alphabetical order."""
    counts = Counter(labels.tolist())
    return tuple(sorted(counts, key=lambda label: (-counts[label], label)))


def class_codes(labels: Words, classes: Sequence[str], owner: object) -> Rows:
    """The place of each label in `classes`, or a DataError in the name of `owner` for one that is not there."""
    places = {name: place for place, name in enumerate(classes)}
    for row, label in enumerate(labels.tolist()):
        if label not in places:
            raise DataError(f"{owner}: label {label!r} in data row {row + 1}; legal: {', '.join(classes)}")
    return np.array([places[label] for label in labels.tolist()], dtype=np.int64)


def stratified_split(strata: Rows, test_fraction: float, rng: np.random.Generator) -> TrainTest:
    """From each stratum a random `test_fraction` of its rows, rounded half up; both sides get one where there are two."""
    in_test = np.zeros(len(strata), dtype=bool)
    for stratum in np.unique(strata):
        rows = np.flatnonzero(strata == stratum)
        share = min(max(int(len(rows) * test_fraction + 0.5), 1), len(rows) - 1)
        in_test[rng.permutation(rows)[:share]] = True
    return TrainTest(np.flatnonzero(~in_test), np.flatnonzero(in_test))


def split_at(first_test: int, rows: int) -> TrainTest:
    """The rows before `first_test` train, the others test."""
    return TrainTest(np.arange(first_test), np.arange(first_test, rows))


def _length(words: Mapping[str, Words]) -> int:
    return len(next(iter(words.values()), ()))


def _gap_notes(names: list[str], gaps: NDArray[np.bool_]) -> tuple[str, ...]:
    counts = gaps.sum(axis=0)
    filled = ", ".join(f"{name} {count}" for name, count in zip(names, counts, strict=True) if count)
    if not filled:
        return ()
    return (f"missing numbers take the median of the training rows and an indicator column: {filled}",)
