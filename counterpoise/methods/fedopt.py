"""FedAdam and FedYogi: Reddi et al. 2021, arXiv:2003.00295, Algorithm 2."""

from __future__ import annotations

from counterpoise.core.method import Method, Weighting, method
from counterpoise.parts.server import Adaptivity, server_adaptive
from counterpoise.registry.schema import Positive, ProperFraction

PAPER = "Reddi et al. 2021, arXiv:2003.00295, Algorithm 2"


@method(paper=PAPER)
def fedadam(
    lr: Positive = 0.1,
    beta1: ProperFraction = 0.9,
    beta2: ProperFraction = 0.99,
    tau: Adaptivity = 1e-3,
    weighting: Weighting = "samples",
) -> Method:
    """``x <- x + lr m / (sqrt v + tau)``, m and v running means of the update and its square, v from tau^2."""
    return Method((server_adaptive("adam", lr, beta1, beta2, tau),), weighting)


@method(paper=PAPER)
def fedyogi(
    lr: Positive = 0.1,
    beta1: ProperFraction = 0.9,
    beta2: ProperFraction = 0.99,
    tau: Adaptivity = 1e-3,
    weighting: Weighting = "samples",
) -> Method:
    """As FedAdam, with ``v <- v - (1 - beta2) delta^2 sign(v - delta^2)``: v changes at a bounded rate."""
    return Method((server_adaptive("yogi", lr, beta1, beta2, tau),), weighting)
