"""The data as they are."""

from __future__ import annotations

import numpy as np

from counterpoise.data.imbalance import Imbalance, imbalance
from counterpoise.data.partition import Labels, Rows


@imbalance("natural")
def natural() -> Imbalance:
    """Keep every row."""

    def rows(labels: Labels, rng: np.random.Generator) -> Rows:
        return np.arange(len(labels.y))

    return rows
