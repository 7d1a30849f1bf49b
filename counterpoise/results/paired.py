"""A test of paired differences, and the interval that it leaves: every shift that the same test with the same correction keeps.

So the interval excludes zero exactly where the corrected p is below 5 %. Signed ranks: Hodges and Lehmann (1963), by the averages
of all pairs of differences (Walsh). Repeated splits of the same rows: Student's test as corrected by Nadeau and Bengio (2003).
"""

from __future__ import annotations

import bisect
import math
from collections.abc import Callable, Sequence
from functools import cached_property, partial
from statistics import fmean

import numpy as np

from counterpoise.results.cells import DECIMALS
from counterpoise.results.statistics import (
    ALPHA,
    Interval,
    SignedRank,
    signed_rank,
)
from counterpoise.results.student import mean_interval, mean_p

LEAST = math.nextafter(0.0, 1.0)  # a bound that only excludes zero
MOST_PIECES = 1_000  # above it, bounds are found by bisection: with so many pairs, ties hardly bend p
UNIT = 4 * 10**DECIMALS  # of whole numbers in which averages of two, and points between them, are whole too


class PairedTest:
    """Differences of two methods over pairs; `overlap`: of repeated splits, test over training samples, else None."""

    def __init__(self, differences: Sequence[float], overlap: float | None = None) -> None:
        self.differences, self.overlap = list(differences), overlap

    @cached_property
    def ranks(self) -> SignedRank:
        return signed_rank(self.differences)

    @cached_property
    def p(self) -> float:
        """Two-sided, before any correction."""
        return self.ranks.p if self.overlap is None else mean_p(self.differences, self.overlap)

    @property
    def gain(self) -> float:
        """Above zero where the test speaks for the method."""
        return self.ranks.rank_biserial if self.overlap is None else fmean(self.differences)

    def interval(self, factor: int) -> Interval | None:
        """Shifts c with ``factor p(differences - c) >= 5 %``, from the lowest to the highest; None where nothing bounds them."""
        found = (
            _kept_by_ranks(self.differences, factor)
            if self.overlap is None
            else mean_interval(self.differences, self.overlap, ALPHA / factor)
        )
        return found and _in_step(found, factor * self.p < ALPHA, self.gain)


def _in_step(found: Interval, excluded: bool, gain: float) -> Interval:
    """With ties the bound may be zero itself, of which only one side is kept; and rounding must not decide."""
    low, high = found
    if not excluded:
        return min(low, 0.0), max(high, 0.0)
    return (max(low, LEAST), max(high, LEAST)) if gain > 0 else (min(low, -LEAST), min(high, -LEAST))


def _kept_by_ranks(differences: Sequence[float], factor: int) -> Interval | None:
    """The test changes at Walsh averages only: it is tried at each of them and between neighbours."""
    if factor * 2.0 ** (1 - len(differences)) >= ALPHA:
        return None
    whole = np.rint(np.asarray(differences, float) * 10**DECIMALS).astype(np.int64) * 4
    walsh = np.unique((whole[:, None] + whole) // 2)
    between = (walsh[:-1] + walsh[1:]) // 2
    pieces = np.sort(np.concatenate([walsh, between])).tolist()  # an average at each even place
    kept = partial(_keeps, whole, factor)
    first, last = _first(pieces, kept), len(pieces) - 1 - _first(pieces[::-1], kept)
    # Between two averages all shifts are alike: the bound is the outer one.
    low, high = pieces[first - first % 2], pieces[last + last % 2]
    return low / UNIT, high / UNIT


def _keeps(whole: np.ndarray, factor: int, shift: int) -> bool:
    return factor * signed_rank((whole - shift).tolist()).p >= ALPHA


def _first(pieces: Sequence[int], kept: Callable[[int], bool]) -> int:
    """The outermost piece that is kept; the one in the middle always is."""
    if len(pieces) <= MOST_PIECES:
        return next(place for place, piece in enumerate(pieces) if kept(piece))
    return bisect.bisect_left(pieces, True, hi=len(pieces) // 2, key=kept)
