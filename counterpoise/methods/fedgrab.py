"""Fed-GraB: Xiao et al. 2023, arXiv:2310.07587, as in spec 3.3, with the whole model trained."""

from __future__ import annotations

from counterpoise.core.method import Method, Weighting, method
from counterpoise.parts.gradient_balancer import FEDGRAB, Controlled, gradient_balancer
from counterpoise.registry.schema import NonNegative


@method(paper=FEDGRAB)
def fedgrab(
    kp: NonNegative = 10.0,
    ki: NonNegative = 0.01,
    kd: NonNegative = 0.1,
    controlled: Controlled = "tail",
    weighting: Weighting = "samples",
) -> Method:
    """FedAvg on a sigmoid for each class; controllers on the clients balance the gradients of rare classes."""
    return Method((gradient_balancer(kp, ki, kd, controlled),), weighting)
