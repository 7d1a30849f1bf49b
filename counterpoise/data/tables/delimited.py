"""Comma-separated files of the public sets, whose columns of numbers, words and labels are known, encoded."""

from __future__ import annotations

import io
from collections import Counter
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from counterpoise.data.faults import fault
from counterpoise.data.root import read_bytes
from counterpoise.data.tables.cells import Numbers
from counterpoise.data.tables.encoder import Encoded, Encoder
from counterpoise.data.tables.fit import fit_numbers, gap_note
from counterpoise.data.types import Rows
from counterpoise.errors import DataError, listed

Words = NDArray[np.str_]

MOST_TEXT = 256 << 20  # bytes, eight times the largest public table; as lines they take several times that


class FileColumns(NamedTuple):
    """All columns of a public file in order; those not named as words, label or ignored are numbers."""

    columns: Sequence[str]
    words: Sequence[str]
    label: str
    labels: Sequence[str]
    ignored: Sequence[str] = ()

    @property
    def numbers(self) -> list[str]:
        return [name for name in self.columns if name not in {*self.words, self.label, *self.ignored}]


class Table(NamedTuple):
    numbers: dict[str, Numbers]
    words: dict[str, Words]
    labels: Words

    def take(self, rows: NDArray[Any]) -> Table:
        numbers = {name: column[rows] for name, column in self.numbers.items()}
        words = {name: column[rows] for name, column in self.words.items()}
        return Table(numbers, words, self.labels[rows])


def stack(tables: Sequence[Table]) -> Table:
    """Tables of the same columns, concatenated."""
    first = tables[0]
    numbers = {name: np.concatenate([table.numbers[name] for table in tables]) for name in first.numbers}
    words = {name: np.concatenate([table.words[name] for table in tables]) for name in first.words}
    return Table(numbers, words, np.concatenate([table.labels for table in tables]))


def read_lines(path: Path, encoding: str = "utf-8-sig") -> list[str]:
    """The lines that are not blank."""
    try:
        text = read_bytes(path, MOST_TEXT).decode(encoding)
    except UnicodeDecodeError as error:
        raise DataError(f"{path}: not text in {encoding}: {error.reason} at byte {error.start}") from error
    return [line for line in text.splitlines() if line and not line.isspace()]


def parse_table(path: Path, lines: Sequence[str], columns: FileColumns) -> Table:
    """Rows without a header; `path` is for errors."""
    width = len(columns.columns)
    if not lines:
        raise DataError(f"{path}: no rows; needs rows of {width} fields")
    for place, line in enumerate(lines, start=1):
        if line.count(",") != width - 1:
            raise DataError(f"{path}: row {place} has {line.count(',') + 1} fields; needs {width}")
    names = columns.numbers, [*columns.words, columns.label]
    places = [[columns.columns.index(name) for name in group] for group in names]
    try:
        numbers = _parse(lines, places[0], np.float64)
        words = np.char.strip(_parse(lines, places[1], np.str_))
    except ValueError as error:
        raise DataError(f"{path}: {error}") from error
    class_codes(words[-1], columns.labels, path)
    return Table(
        dict(zip(names[0], numbers, strict=True)), dict(zip(columns.words, words, strict=False)), words[-1]
    )


def encode(numbers: Mapping[str, Numbers], words: Mapping[str, Words], fit: Rows) -> Encoded:
    """Inputs of known columns, all of which are kept; NaN is a missing number.

    Means, deviations and medians come from the rows in `fit` alone; the categories of a word from all rows.
    """
    kinds = {name: tuple(np.unique(values).tolist()) for name, values in words.items()}
    encoder = Encoder(fit_numbers(numbers, dict.fromkeys(numbers, 0.0), fit), kinds)
    rows = len(next(iter([*numbers.values(), *words.values()]), ()))
    x = encoder.inputs(rows, numbers.__getitem__, lambda name: words[name].tolist())
    return Encoded(x, encoder.names, gap_note(numbers), encoder)


def classes_by_frequency(labels: Words) -> tuple[str, ...]:
    """The most frequent label first; equal ones in alphabetical order."""
    counts = Counter(labels.tolist())
    return tuple(sorted(counts, key=lambda label: (-counts[label], label)))


def class_codes(labels: Words, classes: Sequence[str], owner: Path | str) -> Rows:
    """The index of each label in `classes`; a DataError that names `owner` for an unknown one."""
    places = {name: place for place, name in enumerate(classes)}
    for row, label in enumerate(labels.tolist()):
        if label not in places:
            raise fault(owner, f"label {label!r} in data row {row + 1}; must be one of {listed(classes)}")
    return np.array([places[label] for label in labels.tolist()], dtype=np.int64)


def _parse(lines: Sequence[str], columns: Sequence[int], kind: type[np.generic]) -> NDArray[Any]:
    """[columns, rows] of the text."""
    stream = io.StringIO("\n".join(lines))
    return np.loadtxt(stream, dtype=kind, delimiter=",", comments=None, usecols=columns, ndmin=2).T
