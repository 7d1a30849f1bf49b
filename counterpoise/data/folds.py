"""Cross-validation: rows dealt into folds, each of which tests once; every class in all of them as evenly as it goes."""

from __future__ import annotations

from pathlib import Path
from typing import NamedTuple

import numpy as np

from counterpoise.core.rng import numpy_generator
from counterpoise.data.faults import fault
from counterpoise.data.split import TrainTest, check_class_count, split_note, split_rows
from counterpoise.data.types import Rows
from counterpoise.errors import ConfigError

TRAINS = -1  # the fold of rows that no class can do without


class Fold(NamedTuple):
    """The fold that tests, from 0 on, of so many."""

    place: int
    of: int


def read_fold(folds: int | None, fold: int | None) -> Fold | None:
    """The two keys of a config, which go together."""
    if folds is None and fold is None:
        return None
    if folds is None or fold is None:
        lacking = "folds" if folds is None else "fold"
        raise ConfigError(
            f"data.{lacking} is missing: data.folds is their number, data.fold the one that tests"
        )
    if not 0 <= fold < folds:
        raise ConfigError(f"data.fold must be from 0 to {folds - 1} of {folds} folds, not {fold}")
    return Fold(fold, folds)


def deal_rows(strata: Rows, folds: int, rng: np.random.Generator) -> Rows:
    """[n] the fold of each row: those of a stratum are dealt in random order, going on where the last one stopped.

    The only row of a stratum always trains.
    """
    found, dealt = np.full(len(strata), TRAINS), 0
    for stratum in np.unique(strata):
        rows = np.flatnonzero(strata == stratum)
        if len(rows) > 1:
            found[rng.permutation(rows)] = (dealt + np.arange(len(rows))) % folds
            dealt += len(rows)
    return found


def deal_groups(strata: Rows, groups: Rows, folds: int, rng: np.random.Generator) -> Rows:
    """[n] the fold of each row, whole groups in one: the largest first, each to where it leaves classes most even.

    A group without which training would lack a class always trains.
    """
    counts = np.zeros((groups.max() + 1, strata.max() + 1), dtype=np.int64)  # [G, C]
    np.add.at(counts, (groups, strata), 1)
    shares = counts / counts.sum(0)
    found, taken = np.full(len(counts), TRAINS), np.zeros((folds, counts.shape[1]))
    shuffled = rng.permutation(len(counts))
    free = shuffled[(shares[shuffled] < 1).all(1)]
    for group in free[np.argsort(-counts[free].sum(1), kind="stable")]:
        unevenness = (np.square(taken + shares[group]) - np.square(taken)).sum(1)
        found[group] = unevenness.argmin()
        taken[found[group]] += shares[group]
    return np.asarray(_spare_classes(counts, found)[groups])


def _spare_classes(counts: Rows, found: Rows) -> Rows:
    """Where one fold has all groups of a class, the smallest of them trains."""
    for stratum in range(counts.shape[1]):
        holders = np.flatnonzero(counts[:, stratum])
        if len(set(found[holders])) == 1 and found[holders[0]] != TRAINS:
            found[holders[counts[holders].sum(1).argmin()]] = TRAINS
    return found


def fold_rows(source: Path | str, y: Rows, fold: Fold, seed: int, groups: Rows | None = None) -> TrainTest:
    """The rows of one fold test; the seed deals, so that all folds of one seed are disjoint."""
    check_class_count(source, len(np.unique(y)))
    rng = numpy_generator(seed, "folds")
    dealt = deal_rows(y, fold.of, rng) if groups is None else deal_groups(y, groups, fold.of, rng)
    used = len(set(dealt[dealt != TRAINS]))
    if used < fold.of:
        what = "samples" if groups is None else "groups"
        raise fault(source, f"its {what} fill {used} folds, not {fold.of}; needs fewer folds")
    return TrainTest(np.flatnonzero(dealt != fold.place), np.flatnonzero(dealt == fold.place))


def fold_note(split: TrainTest, fold: Fold, seed: int) -> str:
    rows = len(split.train) + len(split.test)
    return f"{len(split.test):,} of {rows:,} samples are the test set: fold {fold.place} of {fold.of} (0 to {fold.of - 1}), seed {seed}"


def draw_test(
    source: Path | str, y: Rows, test_share: float, seed: int, fold: Fold | None
) -> tuple[TrainTest, str]:
    """A share of each class, or a fold, and the note on it."""
    if fold is None:
        split = split_rows(source, y, test_share, seed)
        return split, split_note(split, test_share, seed)
    split = fold_rows(source, y, fold, seed)
    return split, fold_note(split, fold, seed)


def refuse_fold(fold: Fold | None, given: str) -> None:
    """Refuse folds of data that comes with its test set."""
    if fold is not None:
        raise ConfigError(f"data.fold needs a test set to be drawn, and {given}; leave fold and folds out")
