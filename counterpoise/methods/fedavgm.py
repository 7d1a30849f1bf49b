"""FedAvgM: Hsu et al. 2019, arXiv:1909.06335."""

from __future__ import annotations

from counterpoise.core.method import Method, Weighting, method
from counterpoise.parts.server import server_lr, server_momentum
from counterpoise.registry.schema import Positive, ProperFraction


@method("fedavgm", paper="Hsu et al. 2019, arXiv:1909.06335", off={"beta": 0.0})
def fedavgm(beta: ProperFraction = 0.9, server: Positive = 1.0, weighting: Weighting = "samples") -> Method:
    """``m <- beta m + sum_k w_k (y_k - x)``, ``x <- x + server * m``."""
    return Method((server_momentum(beta), *server_lr(server)), weighting)
