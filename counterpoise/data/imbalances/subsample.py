"""What imbalances share: so many random rows of each class."""

from __future__ import annotations

import math
from typing import Annotated

import numpy as np
from numpy.typing import NDArray

from counterpoise.data.partition import Labels, Rows
from counterpoise.data.skew import class_sizes
from counterpoise.registry.schema import Interval

Factor = Annotated[float, Interval(0, math.inf, open_low=True, open_high=True)]


def reduced(sizes: Rows | np.int64, by: float | NDArray[np.float64]) -> Rows:
    """``floor(sizes / by)``, at least 1: a class never vanishes."""
    rounding = 1e-9  # a quotient that is whole on paper may come out a hair below
    return np.maximum(np.floor(sizes / by + rounding), 1).astype(np.int64)


def keep(labels: Labels, wanted: Rows, rng: np.random.Generator) -> Rows:
    """Sorted rows: of each class a random subset of the wanted size, or all where it has fewer."""
    sizes = np.minimum(wanted, class_sizes(labels))
    kept = [rng.choice(np.flatnonzero(labels.y == c), size, replace=False) for c, size in enumerate(sizes)]
    return np.sort(np.concatenate(kept))
