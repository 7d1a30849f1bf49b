"""Shards of the label-sorted data (McMahan et al., 2017)."""

from __future__ import annotations

import numpy as np

from counterpoise.data.partition import Labels, Partition, partition
from counterpoise.data.partitions.owners import Owned, by_class, even_runs, partition_by
from counterpoise.registry.schema import Count, Whole


@partition("shards", paper="FedAvg (McMahan et al., 2017)")
def shards(per_client: Count = 2, minimum: Whole = 1) -> Partition:
    """Sort by label, cut into ``per_client N`` equal shards, deal each client ``per_client`` of them at random."""

    def rule(labels: Labels, clients: int, rng: np.random.Generator) -> Owned:
        dealt = rng.permutation(even_runs(per_client * clients, clients))
        owner = np.empty(len(labels.y), np.int64)
        owner[by_class(labels.y, rng)] = dealt[even_runs(len(labels.y), per_client * clients)]
        return Owned(owner)

    return partition_by(rule, minimum)
