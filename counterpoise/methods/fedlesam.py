"""FedLESAM: Fan et al. 2024, arXiv:2405.18890, equation 8.

The authors' code indexes one flat vector from the start for every tensor, so its perturbation is wrong; this follows
the paper (spec 3.1).
"""

from __future__ import annotations

from counterpoise.core.method import Method, Weighting, method
from counterpoise.parts.sharpness import FEDLESAM, global_perturbation
from counterpoise.registry.schema import NonNegative


@method(paper=FEDLESAM, off={"rho": 0.0})
def fedlesam(rho: NonNegative = 0.1, weighting: Weighting = "samples") -> Method:
    """SAM with the last global movement as the ascent direction: one pass per step."""
    return Method((global_perturbation(rho),), weighting)
