"""Imbalances: rules that keep some rows of each class of the training set.

longtail is exponential (Cao et al., 2019); step cuts some classes to one small size (Shen et al., 2022); minority makes
the rarest class rarer, as for Adult at 10 and 20.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Annotated, Literal

import numpy as np
from numpy.typing import NDArray

from counterpoise.data.skew import class_sizes
from counterpoise.data.types import Labels, Rows
from counterpoise.errors import ConfigError
from counterpoise.registry.registry import Registry
from counterpoise.registry.schema import Fraction, Interval

Imbalance = Callable[[Labels, np.random.Generator], Rows]  # labels, stream -> sorted rows to keep
Factor = Annotated[float, Interval(0, math.inf, open_low=True, open_high=True)]
MinorityIds = Literal["climb", "half"] | tuple[int, ...]

IMBALANCES: Registry[Imbalance] = Registry("imbalance", [__name__])
imbalance = IMBALANCES.register


@imbalance("natural")
def natural() -> Imbalance:
    """Keep every row."""

    def rows(labels: Labels, rng: np.random.Generator) -> Rows:
        return np.arange(len(labels.y))

    return rows


@imbalance("longtail", paper="LDAM (Cao et al., 2019)")
def longtail(factor: Factor = 100.0, shuffle_classes: bool = False) -> Imbalance:
    """``n_c = floor(n_max factor^(-c / (C - 1)))``, at least 1: class 0 is the head, the last class the tail.

    n_max is the size of the largest class; a class with fewer samples than its n_c keeps all it has.
    ``shuffle_classes`` draws which class comes at which place of the tail.
    """

    def rows(labels: Labels, rng: np.random.Generator) -> Rows:
        place = rng.permutation(labels.classes) if shuffle_classes else np.arange(labels.classes)
        exponent = place / max(labels.classes - 1, 1)
        return keep(labels, reduced(class_sizes(labels).max(), imbalance_ratio(factor) ** exponent), rng)

    return rows


@imbalance("step", paper="CLIMB (Shen et al., 2022)")
def step(factor: Factor = 10.0, share: Fraction = 0.5, ids: MinorityIds = "climb") -> Imbalance:
    """``n_c = floor(n_c / factor)``, at least 1, for the minority classes; the others stay whole.

    ``share`` of the classes are minority: with ``climb`` the even ids from 0 up (0.3 of ten: 0, 2, 4), with ``half``
    the last ones (LDAM). A list of class ids names them outright, and ``share`` is not used.
    """

    def rows(labels: Labels, rng: np.random.Generator) -> Rows:
        sizes = class_sizes(labels)
        minority = minority_ids(ids, share, labels.classes)
        sizes[minority] = reduced(sizes[minority], imbalance_ratio(factor))
        return keep(labels, sizes, rng)

    return rows


@imbalance("minority", paper="FedCGNM")
def minority(factor: Factor = 10.0) -> Imbalance:
    """``n_min = floor(n_max / factor)``, at least 1, by leaving out samples of the rarest class alone.

    Of equally rare classes it is the one with the lowest id; a single class stays whole.
    """

    def rows(labels: Labels, rng: np.random.Generator) -> Rows:
        sizes = class_sizes(labels)
        present = np.flatnonzero(sizes)
        if len(present) < 2:
            return np.arange(len(labels.y))
        rarest = present[sizes[present].argmin()]
        ratio, natural = imbalance_ratio(factor), sizes.max() / sizes[rarest]
        if reduced(sizes.max(), ratio) > sizes[rarest]:
            raise ConfigError(
                f"imbalance minority: factor must be at least the data's own {natural:.4g}, not {factor:g}; "
                "imbalance natural keeps the data as they are"
            )
        sizes[rarest] = reduced(sizes.max(), ratio)
        return keep(labels, sizes, rng)

    return rows


def imbalance_ratio(given: float) -> float:
    """Largest over smallest class, at least 1; papers that print smallest over largest give values below 1."""
    return given if given >= 1 else 1 / given


def minority_ids(ids: MinorityIds, share: float, classes: int) -> list[int]:
    """The classes to cut; by a share at least one of them, and at least one class stays whole."""
    if isinstance(ids, tuple):
        return _checked(ids, classes)
    size = min(max(int(share * classes + 0.5), 1), classes - 1)
    if ids == "half":
        return list(range(classes - size, classes))
    return [*range(0, classes, 2), *range(1, classes, 2)][:size]


def _checked(ids: tuple[int, ...], classes: int) -> list[int]:
    for c in ids:
        if not 0 <= c < classes:
            raise ConfigError(f"imbalance step: ids must be classes 0 to {classes - 1}, not {c}")
    return sorted(set(ids))


def reduced(sizes: Rows | np.int64, by: float | NDArray[np.float64]) -> Rows:
    """``floor(sizes / by)``, at least 1: a class never vanishes."""
    rounding = 1e-9  # a quotient that is whole on paper may come out slightly below
    return np.maximum(np.floor(sizes / by + rounding), 1).astype(np.int64)


def keep(labels: Labels, wanted: Rows, rng: np.random.Generator) -> Rows:
    """Sorted rows: of each class a random subset of the wanted size, or all where it has fewer."""
    sizes = np.minimum(wanted, class_sizes(labels))
    kept = [rng.choice(np.flatnonzero(labels.y == c), size, replace=False) for c, size in enumerate(sizes)]
    return np.sort(np.concatenate(kept))
