"""The encoder of table columns as model inputs: fitted on some rows, it encodes any others the same way everywhere."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from counterpoise.data.faults import MAX_BYTES, MAX_CATEGORIES, MAX_COLUMNS, fault
from counterpoise.data.tables.cells import Numbers, Table, numbers_of, words_of
from counterpoise.errors import DataError, listed, noun, short
from counterpoise.system.capacity import check_fits

OTHER_WORD = "(other)"
BYTES_PER_FEATURE = 4  # counted twice: all rows, then the training and test rows
BYTES_PER_NUMBER = 40  # per cell while it is centred, filled and standardised
BYTES_PER_NAME = 80

Inputs = NDArray[np.float32]


class Encoded(NamedTuple):
    """Model inputs with the name of each, and notes on what was filled in."""

    x: Inputs  # [n, d]
    names: tuple[str, ...]  # age, ca missing, workclass=Private, ...
    notes: tuple[str, ...] = ()
    encoder: Encoder | None = None


class Number(NamedTuple):
    """A column of numbers as ``(value - centre - mean) / deviation``; `gap` replaces a missing ``value - centre``."""

    centre: float  # subtracted first, so that a constant number is exactly 0
    gap: float
    mean: float
    deviation: float  # 1 where the fitted rows do not vary
    flagged: bool  # an extra input marks missing values

    def standardise(self, values: Numbers) -> Numbers:
        centred = values - self.centre
        scaled: Numbers = (np.where(np.isnan(centred), self.gap, centred) - self.mean) / self.deviation
        return scaled


@dataclass(frozen=True)
class Encoder:
    """Inputs: numbers, then an indicator for each number with missing values in the fit, then one-hot words.

    A missing number takes the median of the training rows, with or without an indicator. A word outside the column's
    categories (a missing one too) counts as "(other)" where the fit saw such words outside its training rows and made
    that category; else all the column's inputs are 0. Other columns are left out.
    """

    numbers: Mapping[str, Number]
    words: Mapping[str, tuple[str, ...]]  # categories in the order of the inputs

    @property
    def names(self) -> tuple[str, ...]:
        """The name of each input."""
        flags = (f"{name} missing" for name, number in self.numbers.items() if number.flagged)
        kinds = (f"{name}={word}" for name, words in self.words.items() for word in words)
        return (*self.numbers, *flags, *kinds)

    @property
    def width(self) -> int:
        flags = sum(number.flagged for number in self.numbers.values())
        return len(self.numbers) + flags + sum(map(len, self.words.values()))

    def transform(self, table: Table, known: Mapping[str, Numbers] | None = None) -> Encoded:
        """Encode the rows of a table with these columns; `known`: columns of numbers that are read already."""
        lacking = [repr(name) for name in (*self.numbers, *self.words) if name not in table.columns]
        if lacking:
            columns = noun(len(lacking), "column")
            raise fault(table.path, f"no {columns} {listed(lacking)}, which the model needs", table.header)
        check_size(table, self.width, len(self.numbers))
        read = known or {}
        x = self.inputs(
            len(table.rows),
            lambda name: read[name] if name in read else numbers_of(table, name),
            lambda name: words_of(table, name),
        )
        encoded = Encoded(x, self.names)
        _check_finite(table, encoded)
        return encoded

    def inputs(
        self, rows: int, numbers: Callable[[str], Numbers], words: Callable[[str], Sequence[str]]
    ) -> Inputs:
        """Column by column: words of many categories make the inputs far larger than the table."""
        x = np.zeros((rows, self.width), np.float32)
        flag = len(self.numbers)
        with np.errstate(over="ignore"):  # infinities are reported by row later
            for place, (name, number) in enumerate(self.numbers.items()):
                values = numbers(name)
                x[:, place] = number.standardise(values)
                if number.flagged:
                    x[:, flag] = np.isnan(values)
                    flag += 1
        for name, kinds in self.words.items():
            _one_hot(x[:, flag : flag + len(kinds)], words(name), kinds)
            flag += len(kinds)
        return x

    def to_json(self) -> dict[str, Any]:
        """The state as JSON values, from which `from_json` makes an equal encoder."""
        words = {name: list(kinds) for name, kinds in self.words.items()}
        return {"numbers": {name: list(number) for name, number in self.numbers.items()}, "words": words}

    @classmethod
    def from_json(cls, found: Any) -> Encoder:
        """The encoder of an untrusted JSON state; a DataError where it is not one."""
        if not isinstance(found, dict) or set(found) != {"numbers", "words"}:
            raise DataError("the encoder needs numbers and words, and nothing else")
        numbers, words = found["numbers"], found["words"]
        if not (isinstance(numbers, dict) and isinstance(words, dict)) or numbers.keys() & words.keys():
            raise DataError("the encoder's columns must each be a number or a word")
        if not 0 < len(numbers) + len(words) <= MAX_COLUMNS:
            count = len(numbers) + len(words)
            raise DataError(f"the encoder has {count:,} columns; needs 1 to {MAX_COLUMNS:,}")
        return cls(
            {name: _read_number(name, given) for name, given in numbers.items()},
            {name: _read_words(name, given) for name, given in words.items()},
        )


def check_size(table: Table, width: int, numbers: int) -> None:
    """Before columns are encoded: a column of words becomes one input per category."""
    rows = len(table.rows)
    if rows * width * BYTES_PER_FEATURE > MAX_BYTES:
        reason = f"{rows:,} rows of {width:,} features; at most {MAX_BYTES:,} bytes of them"
        raise fault(table.path, reason)
    needed = rows * (numbers * BYTES_PER_NUMBER + width * 2 * BYTES_PER_FEATURE) + width * BYTES_PER_NAME
    check_fits(needed, f"{table.path}: {rows:,} rows of {width:,} features", DataError)


def _one_hot(x: Inputs, cells: Sequence[str], kinds: Sequence[str]) -> None:
    """Set a 1 in each row for the category of its word."""
    places = {word: place for place, word in enumerate(kinds)}
    codes = np.array([places.get(word, places.get(OTHER_WORD, -1)) for word in cells], dtype=np.int64)
    rows = np.flatnonzero(codes >= 0)
    x[rows, codes[rows]] = 1


def _check_finite(table: Table, encoded: Encoded) -> None:
    finite = np.isfinite(encoded.x)
    if not finite.all():
        place, column = divmod(int(finite.argmin()), finite.shape[1])
        reason = f"{encoded.names[column]!r} is too far from the training rows to standardise"
        raise fault(table.path, reason, table.rows[place])


def _read_number(name: str, given: Any) -> Number:
    fits = isinstance(given, list) and len(given) == len(Number._fields) and isinstance(given[-1], bool)
    if (
        not fits
        or not all(type(part) in (int, float) for part in given[:-1])
        or not _finite_and_positive(given[:-1])
    ):
        needed = "centre, gap, mean and deviation, finite and the last above 0, and whether gaps are flagged"
        raise DataError(f"the encoder's number {short(name)} must be {needed}, not {short(given)}")
    centre, gap, mean, deviation = map(float, given[:-1])
    return Number(centre, gap, mean, deviation, given[-1])


def _finite_and_positive(parts: Sequence[float]) -> bool:
    try:
        return all(map(math.isfinite, parts)) and parts[-1] > 0
    except OverflowError:  # a whole number too large for a float
        return False


def _read_words(name: str, given: Any) -> tuple[str, ...]:
    fits = isinstance(given, list) and 0 < len(given) <= MAX_CATEGORIES + 1  # and "(other)"
    if not fits or not all(isinstance(word, str) for word in given) or len(set(given)) < len(given):
        needed = f"up to {MAX_CATEGORIES:,} words that differ"
        raise DataError(f"the encoder's word {short(name)} must be {needed}, not {short(given)}")
    return tuple(given)
