"""Which values are compared, paired by problem and seed, and the tests of paired differences and of ranks."""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from functools import lru_cache
from statistics import fmean
from typing import NamedTuple, TypeAlias

import numpy as np
from numpy.typing import NDArray

from counterpoise.results.cells import DECIMALS, Row

ALPHA = 0.05
Floats = NDArray[np.float64]
Interval: TypeAlias = tuple[float, float]
Scores: TypeAlias = dict[tuple[str, str], dict[int, float]]  # by problem and method, then by seed


class SignedRank(NamedTuple):
    """Wilcoxon's signed-rank test and the rank-biserial effect."""

    statistic: float  # T, the smaller of the two rank sums
    p: float  # two-sided
    rank_biserial: float  # (R+ - R-) / (R+ + R-), from -1 to 1
    informative: int  # pairs that differ


class Friedman(NamedTuple):
    """Friedman's test, with Iman and Davenport's F where the blocks do not all agree."""

    statistic: float
    p: float
    f: float | None
    f_p: float | None


def signed_rank(differences: Sequence[float]) -> SignedRank:
    """Equal differences share their mean rank; ranks of zeros are split evenly between both sums (Demsar 2006).

    The p-value is exact with any ties and zeros; scipy's only without them or up to 13 pairs.
    """
    from scipy.stats import rankdata

    rounded = np.round(np.asarray(differences, float), DECIMALS)
    ranks = rankdata(np.abs(rounded))
    above, below = float(ranks[rounded > 0].sum()), float(ranks[rounded < 0].sum())
    smaller = min(above, below)
    doubled = np.sort(np.rint(2 * ranks[rounded != 0]).astype(int))  # whole numbers, ties or not
    p = min(1.0, 2 * float(_chances(tuple(doubled.tolist()))[round(2 * smaller)]))
    zeros = float(ranks[rounded == 0].sum())
    return SignedRank(
        smaller + zeros / 2, p, (above - below) / float(ranks.sum()), int(np.count_nonzero(rounded))
    )


@lru_cache(maxsize=64)  # an interval asks for the same ranks again and again
def _chances(doubled: tuple[int, ...]) -> Floats:
    """P(sum of the doubled ranks with a plus sign <= s) for each s, when each sign is a fair coin."""
    chances = np.ones(1)
    for rank in doubled:
        chances = (np.pad(chances, (0, rank)) + np.pad(chances, (rank, 0))) / 2
    return chances.cumsum()


def fewest_pairs(tests: int = 1) -> int:
    """Fewest pairs n with which Holm over this many tests can find a difference: the smallest p of n pairs is 2^(1 - n)."""
    return 1 + math.ceil(math.log2(tests / ALPHA))


def holm(p_values: Sequence[float]) -> list[float]:
    """Adjusted p-values: the i-th smallest of m times m - i + 1, never below the one before, at most 1."""
    adjusted, floor = [0.0] * len(p_values), 0.0
    for rank, place in enumerate(np.argsort(p_values, kind="stable")):
        floor = max(floor, min(1.0, (len(p_values) - rank) * p_values[place]))
        adjusted[place] = floor
    return adjusted


def holm_factors(p_values: Sequence[float]) -> list[int]:
    """By how much Holm multiplies the p that decides each test: ``factor p < 5 %`` exactly where the adjusted p is below 5 %.

    The i-th smallest of m has m - i + 1, until the first that is not below; all from there on have the factor of that one.
    """
    factors, factor, stopped = [1] * len(p_values), len(p_values), False
    for rank, place in enumerate(np.argsort(p_values, kind="stable")):
        factor = factor if stopped else len(p_values) - rank
        stopped = stopped or factor * p_values[place] >= ALPHA
        factors[place] = factor
    return factors


def cohen_dz(differences: Sequence[float]) -> float | None:
    """Mean over sample deviation of the differences; None where they do not vary."""
    rounded = np.round(np.asarray(differences, float), DECIMALS)
    if len(rounded) < 2 or np.ptp(rounded) == 0:
        return None
    return float(rounded.mean() / rounded.std(ddof=1))


def rank_blocks(scores: Floats) -> Floats:
    """Ranks [blocks, methods] within each block, 1 for the highest score; equal scores share their mean rank."""
    from scipy.stats import rankdata

    return np.asarray(rankdata(-np.round(scores, DECIMALS), axis=1), float)


def friedman(scores: Floats) -> Friedman:
    """Do methods (columns, three at least) differ over blocks (rows)? Corrected for ties, as scipy does."""
    from scipy.stats import friedmanchisquare

    ranks = rank_blocks(scores)
    if np.ptp(ranks) == 0:
        return Friedman(0.0, 1.0, 0.0, 1.0)
    statistic, p = map(float, friedmanchisquare(*ranks.T))
    return Friedman(statistic, p, *iman_davenport(statistic, *scores.shape))


def iman_davenport(statistic: float, blocks: int, methods: int) -> tuple[float | None, float | None]:
    """``F = (N - 1) chi2 / (N (k - 1) - chi2)`` and its p-value; None where all blocks agree and F is infinite."""
    from scipy.stats import f

    rest = blocks * (methods - 1) - statistic
    if rest < 1e-9:
        return None, None
    ratio = (blocks - 1) * statistic / rest
    return ratio, float(f.sf(ratio, methods - 1, (methods - 1) * (blocks - 1)))


def nemenyi_difference(methods: int, blocks: int) -> float:
    """Average ranks differ at 5 % from this distance on: ``q sqrt(k (k + 1) / (6 N))``, q the studentized range over sqrt 2."""
    from scipy.stats import studentized_range

    q = float(studentized_range.ppf(1 - ALPHA, methods, np.inf)) / math.sqrt(2)
    return q * math.sqrt(methods * (methods + 1) / (6 * blocks))


def read_scores(rows: Iterable[Row], score: str) -> Scores:
    """Known values of one column of the rows."""
    return {
        (row.problem, row.method): {
            seed: value
            for seed, value in zip(row.seeds, row.cells[score].values, strict=True)
            if value is not None
        }
        for row in rows
    }


def blocks_of(scores: Scores, problems: Sequence[str], methods: Sequence[str]) -> list[list[float]]:
    """Values [blocks, methods] where all of these methods have one.

    A block is one seed of one problem. Seeds of one problem are not independent, so from six problems on, which are
    enough for a test, each problem is one block: its mean over the seeds that all methods have (Demsar 2006).
    """
    found = [_blocks_of_problem(scores, problem, methods) for problem in problems]
    if not problems_are_blocks(problems):
        return [block for blocks in found for block in blocks]
    return [[fmean(column) for column in zip(*blocks, strict=True)] for blocks in found if blocks]


def problems_are_blocks(problems: Sequence[str]) -> bool:
    return len(problems) >= fewest_pairs()


def name_blocks(problems: Sequence[str]) -> str:
    """What a block is, in words."""
    if problems_are_blocks(problems):
        return "problems"
    return "seeds" if len(problems) == 1 else "problem and seed"


def _blocks_of_problem(scores: Scores, problem: str, methods: Sequence[str]) -> list[list[float]]:
    columns = [scores.get((problem, method), {}) for method in methods]
    shared = sorted(set.intersection(*map(set, columns)))
    return [[column[seed] for column in columns] for seed in shared]
