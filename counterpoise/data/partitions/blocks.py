"""Runs of one class dealt to clients: BalanceFL."""

from __future__ import annotations

import numpy as np

from counterpoise.data.partition import Labels, Partition, partition
from counterpoise.data.partitions.owners import Owned, by_class, even_runs, partition_by
from counterpoise.data.skew import class_sizes
from counterpoise.registry.schema import Positive, Whole


@partition("blocks", paper="BalanceFL (Shuai et al., 2022)")
def blocks(tao: Positive = 2.0, minimum: Whole = 1) -> Partition:
    """Sort by class, rarest first; deal blocks of ``tao n_min`` consecutive samples to clients in random order.

    Clients get equal parts, so each has one shorter block; sizes differ by at most one.
    """

    def rule(labels: Labels, clients: int, rng: np.random.Generator) -> Owned:
        sizes = class_sizes(labels)
        length = max(int(min(tao * sizes[sizes > 0].min(), len(labels.y))), 1)
        rank = sizes.argsort(kind="stable").argsort()
        quota = np.bincount(even_runs(len(labels.y), clients), minlength=clients)
        blocks_of = quota // length + 1
        runs = np.full(blocks_of.sum(), length)
        runs[np.cumsum(blocks_of) - 1] = quota % length
        deal = rng.permutation(len(runs))
        owner = np.empty(len(labels.y), np.int64)
        owner[by_class(rank[labels.y], rng)] = np.repeat(
            np.repeat(np.arange(clients), blocks_of)[deal], runs[deal]
        )
        return Owned(owner)

    return partition_by(rule, minimum)
