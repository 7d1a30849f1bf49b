"""Dirichlet by class, each sample on its own."""

from __future__ import annotations

import numpy as np

from counterpoise.data.partition import Labels, Partition, partition
from counterpoise.data.partitions.owners import Concentration, Owned, draw_shares, hand_out, partition_by
from counterpoise.data.skew import class_sizes
from counterpoise.registry.schema import Whole


@partition("dirichlet", paper="Fed-GraB (Xiao et al., 2023)")
def dirichlet(alpha: Concentration = 0.5, minimum: Whole = 1) -> Partition:
    """For each class ``p ~ Dir(alpha 1_N)``; each of its samples goes to client k with probability ``p_k``."""

    def rule(labels: Labels, clients: int, rng: np.random.Generator) -> Owned:
        shares = draw_shares(alpha, (labels.classes, clients), rng)
        return Owned(hand_out(labels, rng.multinomial(class_sizes(labels), shares), rng))

    return partition_by(rule, minimum)
