"""Label skew, with missing classes, with quantity skew: the three settings of FedSat."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from counterpoise.data.partition import Partition, partition
from counterpoise.data.partitions.owners import (
    Concentration,
    Owned,
    draw_shares,
    hand_out,
    partition_by,
    shares_to_counts,
)
from counterpoise.data.partitions.redrawn import dirichlet_capped
from counterpoise.data.skew import Floats, class_sizes
from counterpoise.data.types import Labels, Rows
from counterpoise.errors import ConfigError, first_few
from counterpoise.registry.schema import Count, Whole

LEAST = 2  # samples of each class that a client holds
Held = NDArray[np.bool_]  # [N, C]


@partition("label_skew", paper="FedSat (LS)")
def label_skew(alpha: Concentration = 0.5, minimum: Whole = 10) -> Partition:
    """LS: ``dirichlet_capped`` under the name the paper gives it."""
    return dirichlet_capped(alpha, minimum)


@partition("missing_classes", paper="FedSat (LSMC)")
def missing_classes(held: Count = 2, alpha: Concentration = 0.5, minimum: Whole = 1) -> Partition:
    """LSMC: client k holds class ``k mod C`` and ``held - 1`` random others; holders share a class by ``Dir(alpha)``.

    Every holder gets 2 samples of a class before the rest is shared. A class that nobody holds goes to one client.
    """

    def rule(labels: Labels, clients: int, rng: np.random.Generator) -> Owned:
        _check_held("missing_classes: held", held, labels.classes)
        order = rng.random((clients, labels.classes))
        order[np.arange(clients), np.arange(clients) % labels.classes] = -1
        return _share(labels, _first(order, np.full(clients, held)), np.ones(clients), alpha, rng)

    return partition_by(rule, minimum)


@partition("quantity_skew", paper="FedSat (LQSMC)")
def quantity_skew(least: Count = 2, alpha: Concentration = 0.5, minimum: Whole = 1) -> Partition:
    """LQSMC: client k holds ``m_k`` random classes, m_k uniform on least..C; holders share by ``m_k Dir(alpha)``.

    Every holder gets 2 samples of a class before the rest is shared. A class that nobody holds goes to one client.
    """

    def rule(labels: Labels, clients: int, rng: np.random.Generator) -> Owned:
        _check_held("quantity_skew: least", least, labels.classes)
        width = rng.integers(least, labels.classes, size=clients, endpoint=True)
        held = _first(rng.random((clients, labels.classes)), width)
        return _share(labels, held, width.astype(np.float64), alpha, rng)

    return partition_by(rule, minimum)


def _check_held(what: str, given: int, classes: int) -> None:
    if given > classes:
        raise ConfigError(f"partition {what} must be 1 to {classes}, the number of classes, not {given}")


def _first(order: Floats, width: Rows) -> Held:
    """The first classes in each client's order, as many as its width."""
    return order.argsort(axis=1).argsort(axis=1) < width[:, None]


def _share(labels: Labels, held: Held, quota: Floats, alpha: float, rng: np.random.Generator) -> Owned:
    """Split each class among its holders by quota times a Dirichlet weight."""
    sizes = class_sizes(labels)
    orphans = np.flatnonzero((sizes > 0) & ~held.any(axis=0))
    held[np.resize(rng.permutation(len(held)), len(orphans)), orphans] = True
    counts = np.zeros((labels.classes, len(held)), np.int64)
    for c in np.flatnonzero(sizes):
        holders = np.flatnonzero(held[:, c])
        sure = min(LEAST, sizes[c] // len(holders))
        weights = quota[holders] * draw_shares(alpha, (len(holders),), rng)
        counts[c, holders] = sure + shares_to_counts(sizes[c] - sure * len(holders), weights)
    scarce = np.flatnonzero((sizes > 0) & (sizes < LEAST * held.sum(axis=0)))
    return Owned(hand_out(labels, counts, rng), _repairs(orphans, scarce))


def _repairs(orphans: Rows, scarce: Rows) -> tuple[str, ...]:
    notes = {
        "classes that no client held, given to one client each": orphans,
        f"classes with too few samples to give each holder {LEAST}": scarce,
    }
    return tuple(f"{what}: {first_few(ids)}" for what, ids in notes.items() if len(ids))
