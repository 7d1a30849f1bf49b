"""Stratified train and test rows, with every class in both where possible; natural clients numbered."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Annotated, NamedTuple

import numpy as np
import torch
from torch import Tensor

from counterpoise.core.rng import numpy_generator
from counterpoise.data.faults import MAX_CLASSES, fault
from counterpoise.data.types import Rows
from counterpoise.errors import listed
from counterpoise.registry.schema import Interval

# That tests, as `check_share` has it
Share = Annotated[float, Interval(0, 0.5, open_low=True, open_high=True)]


class TrainTest(NamedTuple):
    """Two disjoint, sorted sets of rows."""

    train: Rows
    test: Rows


class Clients(NamedTuple):
    """Natural clients of the training rows, numbered without gaps."""

    codes: Tensor | None = None
    names: tuple[str, ...] = ()
    notes: tuple[str, ...] = ()


def stratified_split(strata: Rows, test_fraction: float, rng: np.random.Generator) -> TrainTest:
    """Test rows: a random `test_fraction` of each stratum, rounded half up; both sides get a row where there are two."""
    in_test = np.zeros(len(strata), dtype=bool)
    for stratum in np.unique(strata):
        rows = np.flatnonzero(strata == stratum)
        share = min(max(int(len(rows) * test_fraction + 0.5), 1), len(rows) - 1)
        in_test[rng.permutation(rows)[:share]] = True
    return TrainTest(np.flatnonzero(~in_test), np.flatnonzero(in_test))


def group_split(strata: Rows, groups: Rows, test_fraction: float, rng: np.random.Generator) -> TrainTest:
    """Whole groups in random order: one tests where it brings the shares of all strata nearer to `test_fraction`.

    Every stratum keeps a training row. One that is in no test row yet then gives its smallest group, where it can.
    """
    counts = np.zeros((groups.max() + 1, strata.max() + 1), dtype=np.int64)  # [G, C]
    np.add.at(counts, (groups, strata), 1)
    sizes = counts.sum(0)
    in_test, taken = np.zeros(len(counts), dtype=bool), np.zeros_like(sizes)
    for group in rng.permutation(len(counts)):
        after = taken + counts[group]
        nearer = (
            np.square(after / sizes - test_fraction).sum() < np.square(taken / sizes - test_fraction).sum()
        )
        if nearer and (after < sizes).all():
            in_test[group], taken = True, after
    for stratum in np.argsort(sizes, kind="stable"):
        free = np.flatnonzero(~in_test & (counts[:, stratum] > 0) & (taken + counts < sizes).all(1))
        if not taken[stratum] and len(free):
            smallest = free[counts[free].sum(1).argmin()]
            in_test[smallest], taken = True, taken + counts[smallest]
    return TrainTest(np.flatnonzero(~in_test[groups]), np.flatnonzero(in_test[groups]))


def latest_split(times: Rows, test_fraction: float) -> TrainTest:
    """The latest rows test, as near to `test_fraction` of them as whole times allow; `times`: ranks, without gaps."""
    later = np.bincount(times)[::-1].cumsum()[:-1]  # test rows of the last 1, 2, ... times
    last = 1 + int(np.abs(later - test_fraction * len(times)).argmin())
    in_test = times > times.max() - last
    return TrainTest(np.flatnonzero(~in_test), np.flatnonzero(in_test))


def split_at(first_test: int, rows: int) -> TrainTest:
    """The rows before `first_test` train, the others test."""
    return TrainTest(np.arange(first_test), np.arange(first_test, rows))


def check_class_count(source: Path | str, count: int) -> None:
    if not 2 <= count <= MAX_CLASSES:
        raise fault(
            source, f"holds {count:,} {'class' if count == 1 else 'classes'}; needs 2 to {MAX_CLASSES:,}"
        )


def split_rows(source: Path | str, y: Rows, test_share: float, seed: int) -> TrainTest:
    """Each class gives its share of rows to the test set, and keeps at least one."""
    count = len(np.unique(y))
    check_class_count(source, count)
    if count == len(y):
        raise fault(source, "every class has one sample, so none is left for the test set")
    return stratified_split(y, test_share, numpy_generator(seed, "test rows"))


def split_note(split: TrainTest, test_share: float, seed: int) -> str:
    rows = len(split.train) + len(split.test)
    return (
        f"{len(split.test):,} of {rows:,} samples are the test set: {test_share:g} of each class, seed {seed}"
    )


def check_coverage(source: Path | str, classes: Sequence[str], train: Rows, test: Rows) -> tuple[str, ...]:
    """Refuse a class without training samples; note those without test samples."""
    trained, tested = (np.bincount(y, minlength=len(classes)) > 0 for y in (train, test))
    for place in np.flatnonzero(~trained).tolist():
        raise fault(
            source, f"class {classes[place]!r} has {'test samples only' if tested[place] else 'no samples'}"
        )
    untested = [classes[place] for place in np.flatnonzero(~tested).tolist()]
    return (f"no test sample of class: {listed(untested)}",) if untested else ()


def natural_clients(names: tuple[str, ...], codes: Rows) -> Clients:
    """Clients of the training rows; those whose only rows went to the test set are left out."""
    present, numbered = np.unique(codes, return_inverse=True)
    absent = len(names) - len(present)
    notes = (f"{absent} clients have no training sample and are left out",) if absent else ()
    kept = tuple(names[place] for place in present)
    return Clients(torch.from_numpy(numbered.astype(np.int64)), kept, notes)
