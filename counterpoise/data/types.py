"""Rows and labels of samples: the two types that partitions, imbalances and readers share."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

Rows = NDArray[np.int64]


class Labels(NamedTuple):
    """What a partition or an imbalance may look at."""

    y: Rows  # [n] class of each sample
    classes: int
    groups: Rows | None = None  # [n] natural client of each sample, where the data has one
