"""FedBal: "Knowledge is not wisdom: weight balancing mechanism for local and global training in federated learning"
(paper 002), with the open points as spec 2.4 has them; `variant` chooses between the text and its authors' code.
"""

from __future__ import annotations

from typing import Literal

from counterpoise.core.method import Method, Weighting, method
from counterpoise.parts.aggregation_balancer import aggregation_balancer
from counterpoise.parts.feature_balance import FEDBAL, local_balancer
from counterpoise.registry.schema import NonNegative, Positive


@method(paper=FEDBAL)
def fedbal(
    strength: NonNegative = 1.0,
    beta: NonNegative = 3.0,
    temperature: Positive = 1.0,
    inverse: bool = False,
    variant: Literal["paper", "released"] = "paper",
    weighting: Weighting = "samples",
) -> Method:
    """`local_balancer` on the clients, `aggregation_balancer` on the server, whose weights replace those by `weighting`.

    Compare it with ``{ fedavg = { weighting = "uniform" } }``: softmax of cosines near 1 is close to uniform weights.
    """
    if variant == "paper":
        parts = (local_balancer(strength), aggregation_balancer(beta, temperature, inverse=inverse))
    else:
        server = aggregation_balancer(
            beta, temperature, "replace", "classifier", inverse, score="exp", deviation="sample"
        )
        parts = (local_balancer(strength, "released", "sum"), server)
    return Method(parts, weighting)
