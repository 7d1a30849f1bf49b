"""Which rows of a table are its test set: a share of each class, whole groups, the latest ones, or those that say so."""

from __future__ import annotations

import math
import re
from collections.abc import Callable
from datetime import UTC, datetime
from pathlib import Path
from typing import NamedTuple

import numpy as np

from counterpoise.core.rng import numpy_generator
from counterpoise.data.faults import check_share, fault
from counterpoise.data.folds import Fold, fold_note, fold_rows
from counterpoise.data.split import (
    TrainTest,
    check_class_count,
    group_split,
    latest_split,
    split_note,
    split_rows,
)
from counterpoise.data.tables.cells import Coded, Table, names_of, parse_number
from counterpoise.data.types import Rows
from counterpoise.errors import ConfigError, short

DOTTED = re.compile(
    r"^(\d\d?)\.(\d\d?)\.(\d{4})"
)  # day, month, year; with slashes nobody knows which comes first
TRAIN_WORDS, TEST_WORDS = ("train", "training"), ("test", "testing")


class Splitting(NamedTuple):
    """How test rows are chosen; at most one of test, split, group and time is given, and a fold goes with groups alone."""

    share: float = 0.2
    seed: int = 0
    test: Path | None = None  # a file of them
    split: str | None = None  # a column that says train or test
    group: str | None = None  # a column whose groups are not torn
    time: str | None = None  # a column of times: the latest rows test
    fold: Fold | None = None  # of rows or groups dealt into folds

    @property
    def columns(self) -> list[str]:
        """Columns that only say how rows are split, and are no features."""
        return [name for name in (self.split, self.group, self.time) if name is not None]

    def check(self) -> None:
        check_share(self.share)
        given = [key for key in ("test", "split", "group", "time") if getattr(self, key) is not None]
        if len(given) > 1:
            raise ConfigError(
                f"data.{given[0]} and data.{given[1]} both say which rows test; give one of them"
            )
        if self.fold is not None and given not in ([], ["group"]):
            raise ConfigError(f"data.{given[0]} and data.fold both say which rows test; give one of them")


BY_SHARE = Splitting()  # a fifth of each class


def choose_rows(table: Table, classes: Coded, how: Splitting) -> TrainTest:
    """The split of one table; that of a test file needs no choice."""
    y = classes.codes
    if how.columns:
        check_class_count(table.path, len(classes.names))
    if how.split is not None:
        return _told(table, how.split)
    if how.group is not None:
        return _whole_groups(table, how.group, y, how)
    if how.time is not None:
        return _latest(table, how.time, how.share)
    if how.fold is not None:
        return fold_rows(table.path, y, how.fold, how.seed)
    return split_rows(table.path, y, how.share, how.seed)


def splitting_note(split: TrainTest, how: Splitting) -> str:
    """How the test rows were chosen."""
    if how == Splitting(how.share, how.seed):
        return split_note(split, how.share, how.seed)
    if how.fold is not None:
        torn = "" if how.group is None else f", whole groups of {how.group!r}"
        return fold_note(split, how.fold, how.seed) + torn
    rows = len(split.train) + len(split.test)
    said = f"{len(split.test):,} of {rows:,} samples are the test set"
    if how.test is not None:
        return f"{said}: those of {how.test.name}"
    if how.split is not None:
        return f"{said}: those whose {how.split!r} says so"
    if how.time is not None:
        return f"{said}: the latest by {how.time!r}"
    return f"{said}: {how.share:g} of each class as nearly as whole groups of {how.group!r} allow, seed {how.seed}"


def _told(table: Table, name: str) -> TrainTest:
    in_test = np.zeros(len(table.rows), dtype=bool)
    for place, (row, cell) in enumerate(zip(table.rows, table.columns[name], strict=True)):
        if cell.lower() not in (*TRAIN_WORDS, *TEST_WORDS):
            raise fault(table.path, f"{name!r} holds {short(cell)}; needs train or test", row)
        in_test[place] = cell.lower() in TEST_WORDS
    if in_test.all() or not in_test.any():
        raise fault(
            table.path, f"{name!r} says {'test' if in_test.all() else 'train'} in all rows; needs both"
        )
    return TrainTest(np.flatnonzero(~in_test), np.flatnonzero(in_test))


def _whole_groups(table: Table, name: str, y: Rows, how: Splitting) -> TrainTest:
    groups = names_of(table, name)
    if how.fold is not None:
        return fold_rows(table.path, y, how.fold, how.seed, groups.codes)
    split = group_split(y, groups.codes, how.share, numpy_generator(how.seed, "test groups"))
    if not len(split.test):
        reason = "each of them holds all samples of a class" if len(groups.names) > 1 else "there is only one"
        raise fault(table.path, f"no group of {name!r} can be left out of training: {reason}")
    return split


def _latest(table: Table, name: str, share: float) -> TrainTest:
    known, ranks = np.unique(_times(table, name), return_inverse=True)
    if len(known) == 1:
        raise fault(table.path, f"{name!r} is the same in all rows; needs two times or more")
    return latest_split(ranks.astype(np.int64), share)


def _times(table: Table, name: str) -> list[float]:
    """Numbers, or dates in seconds; the first cell says which."""
    cells = table.columns[name]
    read: Callable[[str], float | None] = _seconds if parse_number(cells[0]) is None else parse_number
    times = [read(cell) for cell in cells]
    for row, cell, time in zip(table.rows, cells, times, strict=True):
        if time is None or not math.isfinite(time):
            needed = "numbers in all rows, or dates such as 2024-12-31 or 31.12.2024 in all rows"
            raise fault(table.path, f"{name!r} holds {short(cell)}; needs {needed}", row)
    return [time for time in times if time is not None]


def _iso(dotted: re.Match[str]) -> str:
    day, month, year = dotted.groups()
    return f"{year}-{month:0>2}-{day:0>2}"


def _seconds(cell: str) -> float | None:
    """An ISO date and time, or a date as 31.12.2024; one without a zone is read as UTC."""
    try:
        moment = datetime.fromisoformat(DOTTED.sub(_iso, cell))
    except ValueError:
        return None
    known = moment if moment.tzinfo is not None else moment.replace(tzinfo=UTC)
    return (known - datetime(1970, 1, 1, tzinfo=UTC)).total_seconds()
