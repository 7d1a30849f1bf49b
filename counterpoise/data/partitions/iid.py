"""Clients that all look alike."""

from __future__ import annotations

import numpy as np

from counterpoise.data.partition import Labels, Partition, partition
from counterpoise.data.partitions.owners import Owned, even_runs, partition_by
from counterpoise.registry.schema import Whole


@partition("iid")
def iid(minimum: Whole = 1) -> Partition:
    """Shuffle and cut into equal parts: sizes differ by at most one."""

    def rule(labels: Labels, clients: int, rng: np.random.Generator) -> Owned:
        return Owned(rng.permutation(even_runs(len(labels.y), clients)))

    return partition_by(rule, minimum)
