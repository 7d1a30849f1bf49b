"""FedSpeed and FedSMOO: Sun et al. 2023, arXiv:2302.10429 and arXiv:2305.11584, as in their toolbox (spec 3.1)."""

from __future__ import annotations

from counterpoise.core.method import Method, Weighting, method
from counterpoise.parts.drift import dynamic_regulariser
from counterpoise.parts.sharpness import FEDSMOO, sam, shared_perturbation
from counterpoise.registry.schema import NonNegative


@method(paper="Sun et al. 2023, arXiv:2302.10429")
def fedspeed(rho: NonNegative = 0.1, alpha: NonNegative = 0.1, weighting: Weighting = "uniform") -> Method:
    """FedDyn's regulariser on the SAM gradient; the paper mixes it with the plain gradient, the toolbox does not."""
    return Method((sam(rho), dynamic_regulariser(alpha)), weighting)


@method(paper=FEDSMOO)
def fedsmoo(rho: NonNegative = 0.1, alpha: NonNegative = 0.1, weighting: Weighting = "uniform") -> Method:
    """FedDyn's regulariser on a SAM gradient whose perturbations are drawn to one that all clients share."""
    return Method((shared_perturbation(rho), dynamic_regulariser(alpha)), weighting)
