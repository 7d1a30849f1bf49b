"""FedCM: Xu et al. 2021, arXiv:2106.10874, Algorithm 2."""

from __future__ import annotations

from counterpoise.core.method import Method, Weighting, method
from counterpoise.parts.drift import FEDCM, server_direction
from counterpoise.parts.server import optional_server_step
from counterpoise.parts.travel import MomentumForm
from counterpoise.registry.schema import Fraction, Positive


@method(paper=FEDCM, off={"alpha": 1.0}, renamed={"server": "server_lr"})
def fedcm(
    alpha: Fraction = 0.1,
    server_lr: Positive = 1.0,
    momentum_form: MomentumForm = "resolved",
    weighting: Weighting = "uniform",
) -> Method:
    """``y <- y - lr (alpha g + (1 - alpha) m)``, m the server's last direction; ``x <- x + server_lr * mean delta``."""
    return Method((server_direction(alpha, momentum_form), *optional_server_step(server_lr)), weighting)
