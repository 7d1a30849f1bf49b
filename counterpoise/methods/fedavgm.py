"""FedAvgM: Hsu et al. 2019, arXiv:1909.06335."""

from __future__ import annotations

from counterpoise.core.method import Method, Weighting, method
from counterpoise.parts.server import optional_server_step, server_momentum
from counterpoise.registry.schema import Positive, ProperFraction


@method(paper="Hsu et al. 2019, arXiv:1909.06335", off={"beta": 0.0}, renamed={"server": "server_lr"})
def fedavgm(
    beta: ProperFraction = 0.9, server_lr: Positive = 1.0, weighting: Weighting = "samples"
) -> Method:
    """``m <- beta m + sum_k w_k (y_k - x)``, ``x <- x + server_lr * m``."""
    return Method((server_momentum(beta), *optional_server_step(server_lr)), weighting)
