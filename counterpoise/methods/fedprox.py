"""FedProx: Li et al. 2020, arXiv:1812.06127, equation 2."""

from __future__ import annotations

from counterpoise.core.method import Method, Weighting, method
from counterpoise.parts.drift import PROX, prox
from counterpoise.registry.schema import NonNegative


@method(paper=PROX, off={"mu": 0.0})
def fedprox(mu: NonNegative = 0.01, weighting: Weighting = "samples") -> Method:
    """Local loss plus ``mu / 2 ||y - x||^2``; the server averages as FedAvg."""
    return Method((prox(mu),), weighting)
