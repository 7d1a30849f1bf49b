"""Partitions without a Dirichlet draw: equal parts, shards, blocks of one class, and the clients of the data."""

from __future__ import annotations

import numpy as np

from counterpoise.data.partition import Partition, Split, partition
from counterpoise.data.partitions.owners import Owned, by_class, even_runs, partition_by
from counterpoise.data.skew import class_sizes
from counterpoise.data.types import Labels
from counterpoise.errors import ConfigError
from counterpoise.registry.schema import Count, Positive, Whole


@partition("iid")
def iid(minimum: Whole = 1) -> Partition:
    """Shuffle and cut into equal parts: sizes differ by at most one."""

    def rule(labels: Labels, clients: int, rng: np.random.Generator) -> Owned:
        return Owned(rng.permutation(even_runs(len(labels.y), clients)))

    return partition_by(rule, minimum)


@partition("shards", paper="FedAvg (McMahan et al., 2017)")
def shards(per_client: Count = 2, minimum: Whole = 1) -> Partition:
    """Sort by label, cut into ``per_client N`` equal shards, deal each client ``per_client`` of them at random."""

    def rule(labels: Labels, clients: int, rng: np.random.Generator) -> Owned:
        dealt = rng.permutation(even_runs(per_client * clients, clients))
        owner = np.empty(len(labels.y), np.int64)
        owner[by_class(labels.y, rng)] = dealt[even_runs(len(labels.y), per_client * clients)]
        return Owned(owner)

    return partition_by(rule, minimum)


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


@partition("natural")
def natural(minimum: Whole = 1) -> Partition:
    """Client k is the k-th group of the data, in the order of their ids; ``clients`` is their number, or 0 for all."""

    def split(labels: Labels, clients: int, rng: np.random.Generator) -> Split:
        if labels.groups is None:
            raise ConfigError("partition natural: the data set has no natural clients; use another partition")
        ids, owner = np.unique(labels.groups, return_inverse=True)
        if clients not in (0, len(ids)):
            raise ConfigError(f"partition natural: clients must be {len(ids)}, or 0 for all, not {clients}")
        return partition_by(lambda *_: Owned(owner), minimum)(labels, len(ids), rng)

    return split
