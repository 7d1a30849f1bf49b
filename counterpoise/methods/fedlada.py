"""FedLADA: Sun et al. 2023, arXiv:2308.00522, Algorithm 1; no code of the authors is known (spec 3.1)."""

from __future__ import annotations

from counterpoise.core.method import Method, Weighting, method
from counterpoise.parts.adaptive import FEDLADA, amended_adaptive
from counterpoise.registry.schema import Fraction, Positive, ProperFraction


@method(paper=FEDLADA)
def fedlada(
    alpha: Fraction = 0.1,
    beta1: ProperFraction = 0.9,
    beta2: ProperFraction = 0.99,
    eps: Positive = 1e-3,
    weighting: Weighting = "uniform",
) -> Method:
    """``y <- y - lr (alpha m / sqrt(v_max) + (1 - alpha) g_a)``: local AMSGrad from a shared v, amended by the last global direction."""
    return Method((amended_adaptive(alpha, beta1, beta2, eps),), weighting)
