"""Methods ranked over blocks: Friedman, Iman and Davenport, Nemenyi (Demsar, JMLR 7, 2006, section 3.2)."""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

import numpy as np

from counterpoise.results.statistics import ALPHA, Floats, friedman, nemenyi_difference, rank_blocks


class Ranking(NamedTuple):
    """Average ranks, 1 the best; methods in order of their rank."""

    methods: tuple[str, ...]
    average_ranks: tuple[float, ...]
    blocks: int  # rows in which every method was ranked
    unit: str  # what a block is, in words
    friedman: float  # chi squared, corrected for ties
    p: float  # of friedman
    iman_davenport: float | None  # F; None where all blocks agree and F is infinite
    iman_davenport_p: float | None
    critical_difference: float  # Nemenyi, at 5 %
    groups: tuple[tuple[str, ...], ...]  # largest sets of methods without a significant difference

    @property
    def differs(self) -> bool:
        """Friedman's test finds a difference; otherwise no two methods are distinguished."""
        return self.p < ALPHA


def rank_methods(methods: Sequence[str], scores: Floats, unit: str) -> Ranking | None:
    """Scores [blocks, methods], higher is better; None with fewer than three methods or two blocks."""
    blocks, count = scores.shape
    if count < 3 or blocks < 2:
        return None
    means = rank_blocks(scores).mean(axis=0)
    order = np.argsort(means, kind="stable")
    names, ranks = tuple(methods[place] for place in order), tuple(float(means[place]) for place in order)
    test = friedman(scores)
    distance = nemenyi_difference(count, blocks)
    groups = groups_within(names, ranks, distance) if test.p < ALPHA else (names,)
    return Ranking(names, ranks, blocks, unit, test.statistic, test.p, test.f, test.f_p, distance, groups)


def groups_within(
    methods: Sequence[str], ranks: Sequence[float], distance: float
) -> tuple[tuple[str, ...], ...]:
    """Maximal groups of at least two consecutive methods whose ranks are closer than the distance."""
    ends = [sum(rank - first < distance for rank in ranks) for first in ranks]
    return tuple(
        tuple(methods[start:end])
        for start, end in enumerate(ends)
        if end - start > 1 and (start == 0 or end > ends[start - 1])
    )
