"""Exponential long tail (Cao et al., 2019)."""

from __future__ import annotations

import numpy as np

from counterpoise.data.imbalance import Imbalance, imbalance, imbalance_ratio
from counterpoise.data.imbalances.subsample import Factor, keep, reduced
from counterpoise.data.partition import Labels, Rows
from counterpoise.data.skew import class_sizes


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
