"""Dirichlet by class within blocks of ten clients, cut again into equal parts."""

from __future__ import annotations

import numpy as np

from counterpoise.core.registry import Whole
from counterpoise.data.partition import Labels, Partition, Rows, partition
from counterpoise.data.partitions.owners import Concentration, Owned, even_runs, hand_out, partition_by
from counterpoise.data.partitions.redrawn import MOST_SHARES, capped_draw, redraw
from counterpoise.data.skew import class_sizes

WORKERS = 10  # clients of one block


@partition("dirichlet_blocks", paper="CReFF (Shang et al., 2022)")
def dirichlet_blocks(alpha: Concentration = 0.5, minimum: Whole = 1) -> Partition:
    """Ten clients at a time as in ``dirichlet_capped``; their lists, end to end, are cut into equal parts.

    Each block draws until its smallest client has half the mean, up to 1,000 times. The parts are cut at other
    places than the lists were, so neighbours mix, and sizes differ by at most one.
    """

    def rule(labels: Labels, clients: int, rng: np.random.Generator) -> Owned:
        samples, firsts = len(labels.y), np.arange(0, clients, WORKERS)
        blocks = np.split(rng.permutation(samples), firsts[1:] * samples // clients)
        workers = np.diff(firsts, append=clients)
        queues = [
            _queue(labels, *block, alpha, MOST_SHARES // len(firsts), rng)
            for block in zip(blocks, workers, strict=True)
        ]
        owner = np.empty(samples, np.int64)
        owner[np.concatenate(queues)] = even_runs(samples, clients)
        return Owned(owner)

    return partition_by(rule, minimum)


def _queue(
    labels: Labels, rows: Rows, workers: int, alpha: float, most_shares: int, rng: np.random.Generator
) -> Rows:
    """The rows of one block: client after client, and class after class within a client."""
    block = Labels(labels.y[rows], labels.classes)
    drawn = redraw(
        capped_draw(class_sizes(block), workers, alpha, rng), len(rows) // (2 * workers), most_shares
    )
    return rows[np.lexsort((block.y, hand_out(block, drawn.counts, rng)))]
