"""Step imbalance: some classes full, the others cut to one small size (Shen et al., 2022; Cao et al., 2019)."""

from __future__ import annotations

from typing import Literal

import numpy as np

from counterpoise.data.imbalance import Imbalance, imbalance, imbalance_ratio
from counterpoise.data.imbalances.subsample import Factor, keep, reduced
from counterpoise.data.partition import Labels, Rows
from counterpoise.data.skew import class_sizes
from counterpoise.errors import ConfigError
from counterpoise.registry.schema import Fraction

MinorityIds = Literal["climb", "half"] | tuple[int, ...]


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
            raise ConfigError(f"imbalance step: ids has class {c}; legal: 0 to {classes - 1}")
    return sorted(set(ids))
