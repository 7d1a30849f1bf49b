"""Dirichlet by client: each client has its own mix of classes, and all have the same number of samples."""

from __future__ import annotations

import numpy as np

from counterpoise.data.partition import Labels, Partition, Rows, partition
from counterpoise.data.partitions.owners import (
    Concentration,
    Owned,
    draw_shares,
    even_runs,
    hand_out,
    partition_by,
)
from counterpoise.data.skew import Counts, Floats, class_sizes
from counterpoise.registry.schema import Whole

NO_MASS = 1e-12


@partition("dirichlet_equal", paper="FedDyn (Acar et al., 2021)")
def dirichlet_equal(alpha: Concentration = 0.5, minimum: Whole = 1) -> Partition:
    """``p_k ~ Dir(alpha 1_C)``; clients in random turns draw a class of p_k and get an unused sample of it.

    p_k is renormalised over the classes that are left; where less than 1e-12 of it is left, the class is drawn
    by what remains of each. Nothing is used twice and sizes differ by at most one.
    """

    def rule(labels: Labels, clients: int, rng: np.random.Generator) -> Owned:
        prior = draw_shares(alpha, (clients, labels.classes), rng)
        turns = rng.permutation(even_runs(len(labels.y), clients))
        drawn = draw_classes(prior, class_sizes(labels), turns, rng)
        counts = np.bincount(drawn * clients + turns, minlength=labels.classes * clients)
        return Owned(hand_out(labels, counts.reshape(labels.classes, clients), rng))

    return partition_by(rule, minimum)


def draw_classes(prior: Floats, sizes: Counts, turns: Rows, rng: np.random.Generator) -> Rows:
    """[n] class of each turn, none drawn more often than its size.

    All turns draw at once. A draw stays a fair one while its class lasts, so where the first class runs out only the
    later draws of that class are made again, and so on: at most C rounds in place of n.
    """
    drawn = _draw_by_row(_restricted(prior, sizes), turns, rng)
    while (overdraft := _first_overdraft(drawn, sizes)) is not None:
        turn, empty = overdraft
        again = turn + np.flatnonzero(drawn[turn:] == empty)
        left = sizes - np.bincount(drawn[:turn], minlength=len(sizes))
        drawn[again] = _draw_by_row(_restricted(prior, left), turns[again], rng)
    return drawn


def _restricted(prior: Floats, left: Counts) -> Floats:
    """The prior over classes that are left; by what is left where the prior has none of them."""
    restricted = np.where(left > 0, prior, 0)
    weights = np.where(restricted.sum(axis=1, keepdims=True) < NO_MASS, left, restricted)
    shares: Floats = weights / weights.sum(axis=1, keepdims=True)
    return shares


def _draw_by_row(weights: Floats, rows: Rows, rng: np.random.Generator) -> Rows:
    """One column for each entry of ``rows``, by the weights of that row, which sum to 1."""
    firsts = rows * weights.shape[1]
    edges = np.cumsum(weights)  # of all rows end to end: row r covers r to r + 1, but for rounding
    starts, ends = np.append(0, edges)[firsts], edges[firsts + weights.shape[1] - 1]
    points = np.minimum(starts + rng.random(len(rows)) * (ends - starts), np.nextafter(ends, 0))
    columns: Rows = np.searchsorted(edges, points, side="right") - firsts
    return columns


def _first_overdraft(drawn: Rows, sizes: Counts) -> tuple[int, int] | None:
    """The first turn that draws a class already used up, and that class."""
    times = np.bincount(drawn, minlength=len(sizes))
    over = np.flatnonzero(times > sizes)
    if not len(over):
        return None
    small = drawn.astype(np.min_scalar_type(len(sizes)))  # sorts many times faster
    turns = np.argsort(small, kind="stable")[(np.cumsum(times) - times + sizes)[over]]
    return int(turns.min()), int(over[turns.argmin()])
