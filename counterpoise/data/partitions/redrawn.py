"""Dirichlet by class, drawn again until no client is too small."""

from __future__ import annotations

from collections.abc import Callable
from typing import NamedTuple

import numpy as np

from counterpoise.data.partition import Partition, partition
from counterpoise.data.partitions.owners import (
    Concentration,
    Owned,
    draw_shares,
    hand_out,
    partition_by,
    shares_to_counts,
)
from counterpoise.data.skew import Counts, class_sizes
from counterpoise.data.types import Labels
from counterpoise.registry.schema import Whole

MOST_TRIES = 1000
MOST_SHARES = 4_000_000  # drawn in all tries together: bounds the time with many clients and classes

Draw = Callable[[int], Counts]  # number of tries -> counts [T, C, N]


class Drawn(NamedTuple):
    counts: Counts  # [C, N]
    tries: int
    lacking: int  # samples below the minimum, summed over clients


@partition("dirichlet_capped", paper="NIID-Bench (Li et al., 2022)")
def dirichlet_capped(alpha: Concentration = 0.5, minimum: Whole = 10) -> Partition:
    """Class by class ``p ~ Dir(alpha 1_N)``, 0 for clients that hold ``n / N`` already; cut at the cumulated p.

    All is drawn again until the smallest client has the minimum, up to 1,000 times (less often where clients times
    classes is over 4,000); then the draw that lacks least is filled up from its largest clients.
    """

    def rule(labels: Labels, clients: int, rng: np.random.Generator) -> Owned:
        draw = capped_draw(class_sizes(labels), clients, alpha, rng)
        return _hand_out_drawn(labels, redraw(draw, minimum), minimum, rng)

    return partition_by(rule, minimum)


@partition("dirichlet_rounded", paper="FedBal")
def dirichlet_rounded(alpha: Concentration = 0.5, minimum: Whole = 1) -> Partition:
    """For each class ``p ~ Dir(alpha 1_N)`` rounded to three decimals; cut at the cumulated p.

    All is drawn again until the smallest client has the minimum, as in ``dirichlet_capped``.
    """

    def rule(labels: Labels, clients: int, rng: np.random.Generator) -> Owned:
        sizes = class_sizes(labels)

        def draw(tries: int) -> Counts:
            shares = draw_shares(alpha, (tries, labels.classes, clients), rng)
            rounded = np.round(shares, 3)
            vanished = ~rounded.any(axis=-1, keepdims=True)  # all shares round to 0 with thousands of clients
            return shares_to_counts(sizes, np.where(vanished, shares, rounded))

        return _hand_out_drawn(labels, redraw(draw, minimum), minimum, rng)

    return partition_by(rule, minimum)


def _hand_out_drawn(labels: Labels, drawn: Drawn, minimum: int, rng: np.random.Generator) -> Owned:
    failed = f"none of {drawn.tries} draws gave every client {minimum} samples"
    return Owned(hand_out(labels, drawn.counts, rng), (failed,) if drawn.lacking else ())


def capped_draw(sizes: Counts, clients: int, alpha: float, rng: np.random.Generator) -> Draw:
    """All tries at once; classes in turn, because what a client holds decides whether it gets more."""
    cap = sizes.sum() / clients
    smallest = 1e-300  # even shares where those of all open clients underflow

    def draw(tries: int) -> Counts:
        counts = np.zeros((tries, len(sizes), clients), np.int64)
        held = np.zeros((tries, clients), np.int64)
        for c, size in enumerate(sizes):
            is_open = held < cap
            is_open |= ~is_open.any(axis=-1, keepdims=True)  # all are full: nothing is left to assign
            shares = draw_shares(alpha, (tries, clients), rng)
            counts[:, c] = shares_to_counts(size, np.where(is_open, shares + smallest, 0))
            held += counts[:, c]
        return counts

    return draw


def redraw(draw: Draw, minimum: int, most_shares: int = MOST_SHARES) -> Drawn:
    """The first try that gives every client the minimum, else the one of a bounded number that lacks least."""
    best = _best(draw(1), minimum, 1)
    most = min(MOST_TRIES, most_shares // best.counts.size)
    while best.lacking and best.tries < most:
        more = min(best.tries, most - best.tries)
        found = _best(draw(more), minimum, best.tries + more)
        best = min(found, best._replace(tries=found.tries), key=lambda drawn: drawn.lacking)
    return best


def _best(counts: Counts, minimum: int, tries: int) -> Drawn:
    lacking = np.maximum(minimum - counts.sum(axis=1), 0).sum(axis=-1)  # [T]
    first = int(lacking.argmin())
    return Drawn(counts[first], tries, int(lacking[first]))
