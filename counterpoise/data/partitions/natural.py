"""The clients that the data came with."""

from __future__ import annotations

import numpy as np

from counterpoise.data.partition import Labels, Partition, Split, partition
from counterpoise.data.partitions.owners import Owned, partition_by
from counterpoise.errors import ConfigError
from counterpoise.registry.schema import Whole


@partition("natural")
def natural(minimum: Whole = 1) -> Partition:
    """Client k is the k-th group of the data, in the order of their ids; ``clients`` is their number, or 0 for all."""

    def split(labels: Labels, clients: int, rng: np.random.Generator) -> Split:
        if labels.groups is None:
            raise ConfigError("partition natural: the data set has no natural clients; use another partition")
        ids, owner = np.unique(labels.groups, return_inverse=True)
        if clients not in (0, len(ids)):
            raise ConfigError(
                f"partition natural: clients = {clients} is not legal; legal: {len(ids)}, or 0 for all"
            )
        return partition_by(lambda *_: Owned(owner), minimum)(labels, len(ids), rng)

    return split
