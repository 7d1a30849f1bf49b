"""FedSAM and MoFedSAM: Qu et al. 2022, arXiv:2206.02618, Algorithms 1 and 2."""

from __future__ import annotations

from counterpoise.core.method import Method, Weighting, method
from counterpoise.parts.drift import server_direction
from counterpoise.parts.server import optional_server_step
from counterpoise.parts.sharpness import sam
from counterpoise.registry.schema import Fraction, NonNegative, Positive

PAPER = "Qu et al. 2022, arXiv:2206.02618"


@method(paper=PAPER, off={"rho": 0.0})
def fedsam(rho: NonNegative = 0.1, weighting: Weighting = "samples") -> Method:
    """Local steps by the SAM gradient ``grad f(y + rho g / ||g||)``; the server averages as FedAvg."""
    return Method((sam(rho),), weighting)


@method(paper=PAPER, off={"rho": 0.0, "alpha": 1.0}, renamed={"server": "server_lr"})
def mofedsam(
    rho: NonNegative = 0.1, alpha: Fraction = 0.1, server_lr: Positive = 1.0, weighting: Weighting = "uniform"
) -> Method:
    """FedCM's rule on the SAM gradient: ``y <- y - lr (alpha g_sam + (1 - alpha) m)``."""
    return Method((sam(rho), server_direction(alpha), *optional_server_step(server_lr)), weighting)
