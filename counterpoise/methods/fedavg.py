"""FedAvg: McMahan et al. 2017, arXiv:1602.05629, Algorithm 1."""

from __future__ import annotations

from counterpoise.core.method import Method, Weighting, method
from counterpoise.parts.server import optional_server_step
from counterpoise.registry.schema import Positive


@method(paper="McMahan et al. 2017, arXiv:1602.05629", renamed={"server": "server_lr"})
def fedavg(weighting: Weighting = "samples", server_lr: Positive = 1.0) -> Method:
    """``x <- x + server_lr * sum_k w_k (y_k - x)``, ``w_k = n_k / sum n`` or ``1 / |S|``, y_k by local SGD from x."""
    return Method(optional_server_step(server_lr), weighting)
