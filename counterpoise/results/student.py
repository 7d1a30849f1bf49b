"""Student's test and interval of a mean of paired differences, corrected for runs that split the same rows again and again."""

from __future__ import annotations

import math
from collections.abc import Sequence

import numpy as np

from counterpoise.results.cells import DECIMALS
from counterpoise.results.statistics import ALPHA, Interval


def mean_error(differences: Sequence[float], overlap: float = 0.0) -> float:
    """Standard error of the mean, ``s sqrt(1 / n + overlap)``; infinite with one value.

    `overlap`: test over training samples, of runs that split the same rows again and again, whose differences agree too
    well (Nadeau and Bengio 2003).
    """
    if len(differences) < 2:
        return math.inf
    return float(np.std(differences, ddof=1)) * math.sqrt(1 / len(differences) + overlap)


def mean_p(differences: Sequence[float], overlap: float = 0.0) -> float:
    """Student's test that the mean is zero, two-sided; 1 with one value."""
    from scipy.stats import t

    rounded = np.round(np.asarray(differences, float), DECIMALS)
    mean, error = abs(float(rounded.mean())), mean_error(rounded.tolist(), overlap)
    if mean == 0 or math.isinf(error):
        return 1.0
    return 0.0 if error == 0 else float(2 * t.sf(mean / error, len(rounded) - 1))


def mean_interval(
    differences: Sequence[float], overlap: float = 0.0, alpha: float = ALPHA
) -> Interval | None:
    """Student's interval of the mean, by default of 95 %; None with fewer than two values."""
    from scipy.stats import t

    count = len(differences)
    if count < 2:
        return None
    mean = float(np.mean(differences))
    half = float(t.isf(alpha / 2, count - 1)) * mean_error(differences, overlap)
    return mean - half, mean + half


def steady_effect(pairs: int) -> float:
    """Cohen's dz from which on Student's 95 % interval of so many pairs excludes zero."""
    from scipy.stats import t

    return float(t.isf(ALPHA / 2, pairs - 1)) / math.sqrt(pairs)
