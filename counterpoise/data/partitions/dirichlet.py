"""Dirichlet partitions: by class and sample, in blocks of ten clients, and by client with equal sizes."""

from __future__ import annotations

import numpy as np

from counterpoise.data.partition import Partition, partition
from counterpoise.data.partitions.owners import (
    Concentration,
    Owned,
    draw_shares,
    even_runs,
    hand_out,
    partition_by,
)
from counterpoise.data.partitions.redrawn import MOST_SHARES, capped_draw, redraw
from counterpoise.data.skew import Counts, Floats, class_sizes
from counterpoise.data.types import Labels, Rows
from counterpoise.registry.schema import Whole

WORKERS = 10  # clients per block
NO_MASS = 1e-12


@partition("dirichlet", paper="Fed-GraB (Xiao et al., 2023)")
def dirichlet(alpha: Concentration = 0.5, minimum: Whole = 1) -> Partition:
    """For each class ``p ~ Dir(alpha 1_N)``; each of its samples goes to client k with probability ``p_k``."""

    def rule(labels: Labels, clients: int, rng: np.random.Generator) -> Owned:
        shares = draw_shares(alpha, (labels.classes, clients), rng)
        return Owned(hand_out(labels, rng.multinomial(class_sizes(labels), shares), rng))

    return partition_by(rule, minimum)


@partition("dirichlet_blocks", paper="CReFF (Shang et al., 2022)")
def dirichlet_blocks(alpha: Concentration = 0.5, minimum: Whole = 1) -> Partition:
    """Ten clients at a time as in ``dirichlet_capped``; their concatenated lists are cut into equal parts.

    Each block draws until its smallest client has half the mean, up to 1,000 times. The cuts do not
    fall between the lists, so neighbouring clients mix; sizes differ by at most one.
    """

    def rule(labels: Labels, clients: int, rng: np.random.Generator) -> Owned:
        samples, firsts = len(labels.y), np.arange(0, clients, WORKERS)
        most_shares = MOST_SHARES // len(firsts)

        def line_up(rows: Rows, workers: int) -> tuple[Rows, bool]:
            """The rows of a block sorted by client, then by class; and whether all draws failed."""
            block = Labels(labels.y[rows], labels.classes)
            draw = capped_draw(class_sizes(block), workers, alpha, rng)
            drawn = redraw(draw, len(rows) // (2 * workers), most_shares)
            return rows[np.lexsort((block.y, hand_out(block, drawn.counts, rng)))], drawn.lacking > 0

        blocks = np.split(rng.permutation(samples), firsts[1:] * samples // clients)
        queues, failed = zip(*map(line_up, blocks, np.diff(firsts, append=clients)), strict=True)
        owner = np.empty(samples, np.int64)
        owner[np.concatenate(queues)] = even_runs(samples, clients)
        note = f"blocks in which no draw gave every client half the mean: {sum(failed)}"
        return Owned(owner, (note,) if any(failed) else ())

    return partition_by(rule, minimum)


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

    All turns draw at once. Draws are valid until their class runs out; then only the later draws of that class are
    repeated, and so on: at most C passes instead of n.
    """
    drawn = _draw_by_row(_restricted(prior, sizes), turns, rng)
    while (overdraft := _first_overdraft(drawn, sizes)) is not None:
        turn, empty = overdraft
        again = turn + np.flatnonzero(drawn[turn:] == empty)
        left = sizes - np.bincount(drawn[:turn], minlength=len(sizes))
        drawn[again] = _draw_by_row(_restricted(prior, left), turns[again], rng)
    return drawn


def _restricted(prior: Floats, left: Counts) -> Floats:
    """The prior over classes with samples left; proportional to what is left where the prior gives them no mass."""
    restricted = np.where(left > 0, prior, 0)
    weights = np.where(restricted.sum(axis=1, keepdims=True) < NO_MASS, left, restricted)
    shares: Floats = weights / weights.sum(axis=1, keepdims=True)
    return shares


def _draw_by_row(weights: Floats, rows: Rows, rng: np.random.Generator) -> Rows:
    """One column for each entry of ``rows``, drawn by the weights of that row, which sum to 1."""
    firsts = rows * weights.shape[1]
    edges = np.cumsum(weights)  # over all rows concatenated: row r covers r to r + 1, up to rounding
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
    small = drawn.astype(np.min_scalar_type(len(sizes)))  # a small type sorts many times faster
    turns = np.argsort(small, kind="stable")[(np.cumsum(times) - times + sizes)[over]]
    return int(turns.min()), int(over[turns.argmin()])
