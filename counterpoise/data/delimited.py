"""Comma-separated text of a known width as columns of numbers and of words."""

from __future__ import annotations

import io
from collections.abc import Sequence
from pathlib import Path
from typing import NamedTuple

import numpy as np

from counterpoise.data.columns import Numbers, Words
from counterpoise.data.root import read_bytes
from counterpoise.errors import DataError


class Table(NamedTuple):
    numbers: Numbers  # [n, number columns]
    words: Words  # [n, word columns]


def read_lines(path: Path, encoding: str = "utf-8-sig") -> list[str]:
    """The lines that are not blank."""
    try:
        text = read_bytes(path).decode(encoding)
    except UnicodeDecodeError as error:
        raise DataError(f"{path}: not text in {encoding}: {error.reason} at byte {error.start}") from error
    return [line for line in text.splitlines() if line and not line.isspace()]


def parse_table(path: Path, lines: Sequence[str], width: int, numbers: Sequence[int], words: Sequence[int]) -> Table:
    """The chosen columns of lines that must all have `width` fields; `path` is for the error's sake."""
    if not lines:
        raise DataError(f"{path}: no rows; legal: at least one row of {width} fields")
    for place, line in enumerate(lines, start=1):
        if line.count(",") != width - 1:
            raise DataError(f"{path}: row {place} has {line.count(',') + 1} fields; legal: {width}")
    text = "\n".join(lines)
    try:
        return Table(_parse(text, numbers, np.float64), np.char.strip(_parse(text, words, np.str_)))
    except ValueError as error:
        raise DataError(f"{path}: {error}") from error


def _parse(text: str, columns: Sequence[int], kind: type[np.generic]) -> np.ndarray:
    if not columns:
        return np.empty((text.count("\n") + 1, 0), kind)
    stream = io.StringIO(text)
    return np.loadtxt(stream, dtype=kind, delimiter=",", comments=None, usecols=tuple(columns), ndmin=2)
