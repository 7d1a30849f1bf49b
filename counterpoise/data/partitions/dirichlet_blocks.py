"""Dirichlet by class within blocks of ten clients, cut again into equal parts."""

from __future__ import annotations

import numpy as np

from counterpoise.data.partition import Labels, Partition, Rows, partition
from counterpoise.data.partitions.owners import Concentration, Owned, even_runs, hand_out, partition_by
from counterpoise.data.partitions.redrawn import MOST_SHARES, capped_draw, redraw
from counterpoise.data.skew import class_sizes
from counterpoise.registry.schema import Whole

WORKERS = 10  # clients of one block


@partition("dirichlet_blocks", paper="CReFF (Shang et al., 2022)")
def dirichlet_blocks(alpha: Concentration = 0.5, minimum: Whole = 1) -> Partition:
    """Ten clients at a time as in ``dirichlet_capped``; their lists, end to end, are cut into equal parts.

    Each block draws until its smallest client has half the mean, up to 1,000 times. The parts are cut at other
    places than the lists were, so neighbours mix, and sizes differ by at most one.
    """

    def rule(labels: Labels, clients: int, rng: np.random.Generator) -> Owned:
        samples, firsts = len(labels.y), np.arange(0, clients, WORKERS)
        most_shares = MOST_SHARES // len(firsts)

        def line_up(rows: Rows, workers: int) -> tuple[Rows, bool]:
            """The rows of a block client after client, by class within a client; and whether the draws failed."""
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
