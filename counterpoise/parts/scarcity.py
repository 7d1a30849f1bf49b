"""How scarce a client's classes are among all clients: the arithmetic of FedWCM (paper 001), equations 3 to 5, all in float64."""

from __future__ import annotations

import math
from typing import Literal, TypeAlias

import torch
from torch import Tensor

from counterpoise.core.part import ClientData

Score: TypeAlias = Literal["positive", "abs"]
Exponent: TypeAlias = Literal["discrepancy", "per_class"]

FIRST_ALPHA = 0.1
ONE_SHARE = 2.0**32  # a share of 1 in fixed point: only whole numbers can be summed without showing them
SHARPEST = 1e300  # times 0 is still 0


def shares_of(counts: Tensor) -> Tensor:
    """[C] of class counts; in float64 equal classes then have the share 1 / C exactly."""
    known = counts.double()
    return known / known.sum(-1, keepdim=True).clamp(min=1)


def fixed_point_shares(data: ClientData, classes: int) -> Tensor:
    """[C] a client's shares n_kc / n_k as whole numbers.

    The mean of all clients' scores is no function of the summed counts unless clients are equally large.
    """
    counts = torch.bincount(data.labels, minlength=classes)
    return (shares_of(counts) * ONE_SHARE).round().long()


def class_gaps(counts: Tensor, target: Tensor, score: Score) -> Tensor:
    """[C] ``max(target_c - p_c, 0)``, or ``|target_c - p_c|`` as equation 3 prints it.

    The printed form favours clients of the largest class, whose gap is the widest: the text wants those of scarce ones.
    """
    gaps = target - shares_of(counts).to(target)
    return gaps.abs() if score == "abs" else gaps.clamp(min=0)


def discrepancy(counts: Tensor, target: Tensor) -> Tensor:
    """``D = sum_c |target_c - p_c|``, whichever the score."""
    return class_gaps(counts, target, "abs").sum()


def client_score(gaps: Tensor, counts: Tensor) -> Tensor:
    """``s_k = sum_c gap_c n_kc / n_k``."""
    return (gaps * shares_of(counts)).sum(-1)


def mean_score(gaps: Tensor, shares: Tensor, clients: int) -> Tensor:
    """Mean of s_k over all clients that have samples, from the sum of their fixed-point shares."""
    return (gaps * shares.to(gaps)).sum() / (ONE_SHARE * max(clients, 1))


def tilt(weights: Tensor, scores: Tensor, sharpness: float) -> Tensor:
    """``w_k exp(sharpness s_k)``, renormalised; equal scores leave the weights as they are, to the last bit."""
    factors = (min(sharpness, SHARPEST) * (scores - scores.max())).exp()
    tilted = weights * factors
    # Where the scarcest clients weigh nothing and the temperature is all but 0, nobody would be left.
    if bool((factors == 1).all()) or not float(tilted.sum()) > 0:
        return weights
    return tilted / tilted.sum()


def adaptive_alpha(size: float, q: float) -> float:
    """``clip(0.1 + 0.9 (1 - e^-size) q, 0.1, 1)``: the rarer the classes and the better the round had them, the less momentum."""
    return min(max(FIRST_ALPHA - 0.9 * math.expm1(-size) * q, FIRST_ALPHA), 1.0)
