"""FedAvg: McMahan et al. 2017, arXiv:1602.05629, Algorithm 1."""

from __future__ import annotations

from counterpoise.core.method import Method, Weighting, method
from counterpoise.parts.server import server_lr
from counterpoise.registry.schema import Positive


@method("fedavg", paper="McMahan et al. 2017, arXiv:1602.05629")
def fedavg(weighting: Weighting = "samples", server: Positive = 1.0) -> Method:
    """``x <- x + server * sum_k w_k (y_k - x)``, ``w_k = n_k / sum n`` or ``1 / |S|``, y_k by local SGD from x."""
    return Method(server_lr(server), weighting)
