"""FedDyn: Acar et al. 2021, arXiv:2111.04263, Algorithm 1, in the form of the authors' code (h = -grad / alpha)."""

from __future__ import annotations

from counterpoise.core.method import Method, Weighting, method
from counterpoise.parts.drift import FEDDYN, dynamic_regulariser
from counterpoise.registry.schema import NonNegative


@method(paper=FEDDYN)
def feddyn(alpha: NonNegative = 0.1, weighting: Weighting = "uniform") -> Method:
    """``x <- mean_S y_k + mean over all clients of h``, h the sum of each client's updates so far."""
    return Method((dynamic_regulariser(alpha),), weighting)
