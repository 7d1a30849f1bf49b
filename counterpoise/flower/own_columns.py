"""Columns of a table as the server describes them, so that every client encodes its own rows alike."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import torch

from counterpoise.data.columns import class_codes
from counterpoise.data.dataset import Samples
from counterpoise.data.own.cells import Table, is_missing, names_of, numbers_of, parse_number
from counterpoise.data.own.csv_file import read_csv
from counterpoise.data.own.parquet_file import read_parquet
from counterpoise.data.own.table import PARQUET_SUFFIXES
from counterpoise.errors import DataError

GAP = "(missing)"
SMALLEST = 1e-12


class Number(NamedTuple):
    """A column of numbers: what stands for a gap, and how it is standardised."""

    median: float
    mean: float
    deviation: float


class Columns(NamedTuple):
    """Numbers first, then for each an indicator of gaps, then one-hot words; unknown words are all zeros."""

    label: str
    numbers: dict[str, Number]
    words: dict[str, list[str]]

    @property
    def width(self) -> int:
        return 2 * len(self.numbers) + sum(len(words) for words in self.words.values())

    def filled(self) -> dict[str, list[str]]:
        """Words without what stands for a gap."""
        return {name: [word for word in words if word != GAP] for name, words in self.words.items()}

    @classmethod
    def from_json(cls, found: Mapping[str, Any]) -> Columns:
        numbers = {name: Number(*values) for name, values in found["numbers"].items()}
        return cls(found["label"], numbers, dict(found["words"]))


def open_table(path: Path) -> Table:
    return read_parquet(path) if path.suffix.lower() in PARQUET_SUFFIXES else read_csv(path)


def fit_columns(
    table: Table, label: str, numeric: Collection[str], categorical: Collection[str], drop: Collection[str]
) -> Columns:
    """Statistics and words of the server's own rows."""
    numbers, words = {}, {}
    for name in [name for name in table.columns if name != label and name not in drop]:
        if name in numeric or (name not in categorical and _looks_numeric(table, name)):
            numbers[name] = _fit_number(numbers_of(table, name))
        else:
            words[name] = sorted({_word(cell) for cell in table.columns[name]})
    return Columns(label, numbers, words)


def encode_table(table: Table, columns: Columns, classes: tuple[str, ...], label: str | None) -> Samples:
    """The rows of a table in the server's encoding; a column or a class that is not there is named in the error."""
    label = label or columns.label
    for name in [label, *columns.numbers, *columns.words]:
        if name not in table.columns:
            raise DataError(f"{table.path}: no column {name!r}, which the server's description has")
    coded = names_of(table, label)
    y = class_codes(np.array(coded.names)[coded.codes], classes, table.path)
    blocks = [_numbers(table, columns), _gaps(table, columns), *_words(table, columns)]
    x = np.concatenate([block.astype(np.float32) for block in blocks if block.size], axis=1)
    return Samples(torch.from_numpy(x), torch.from_numpy(y))


def _looks_numeric(table: Table, name: str) -> bool:
    cells = {cell for cell in table.columns[name] if not is_missing(cell)}
    return name not in table.words and all(parse_number(cell) is not None for cell in cells)


def _fit_number(values: np.ndarray) -> Number:
    known = values[~np.isnan(values)]
    median = float(np.median(known)) if len(known) else 0.0
    filled = np.where(np.isnan(values), median, values)
    deviation = float(filled.std())
    return Number(median, float(filled.mean()), deviation if deviation > SMALLEST else 1.0)


def _word(cell: str) -> str:
    return GAP if is_missing(cell) else cell


def _numbers(table: Table, columns: Columns) -> np.ndarray:
    filled = [
        (np.nan_to_num(numbers_of(table, name), nan=known.median) - known.mean) / known.deviation
        for name, known in columns.numbers.items()
    ]
    return np.column_stack(filled) if filled else np.empty((len(table.rows), 0))


def _gaps(table: Table, columns: Columns) -> np.ndarray:
    gaps = [np.isnan(numbers_of(table, name)) for name in columns.numbers]
    return np.column_stack(gaps) if gaps else np.empty((len(table.rows), 0))


def _words(table: Table, columns: Columns) -> list[np.ndarray]:
    return [
        np.array([[_word(cell) == word for word in known] for cell in table.columns[name]])
        for name, known in columns.words.items()
    ]
