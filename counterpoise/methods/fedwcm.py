"""FedWCM and FedWCM-X: "FedWCM: Unleashing the Potential of Momentum-based Federated Learning in Long-Tailed Scenarios"
(paper 001), Algorithms 1 and 3, with the open points as spec 2.3 has them.
"""

from __future__ import annotations

from counterpoise.core.method import Method, Weighting, method
from counterpoise.parts.client_rate import rate_by_steps
from counterpoise.parts.scarcity import Exponent, Score
from counterpoise.parts.server import optional_server_step
from counterpoise.parts.travel import MomentumForm
from counterpoise.parts.weighted_client_momentum import PAPER, weighted_client_momentum
from counterpoise.registry.schema import Fraction, NonNegative, Positive


@method(paper=PAPER)
def fedwcm(
    target: list[NonNegative] | None = None,
    score: Score = "positive",
    temperature_scale: Positive = 1.0,
    alpha: Fraction | None = None,
    exponent: Exponent = "discrepancy",
    momentum_form: MomentumForm = "resolved",
    server_lr: Positive = 1.0,
    weighting: Weighting = "uniform",
) -> Method:
    """FedCM with clients weighed by ``softmax(s_k / T)``, s_k how scarce their classes are, and alpha anew in each round.

    Where all classes are equal it is FedCM with alpha 0.1. The weighting is what the scores multiply.
    """
    momentum = weighted_client_momentum(target, score, temperature_scale, alpha, exponent, momentum_form)
    return Method((momentum, *optional_server_step(server_lr)), weighting)


@method(paper="FedWCM-X, Algorithm 3")
def fedwcm_x(
    target: list[NonNegative] | None = None,
    score: Score = "positive",
    temperature_scale: Positive = 1.0,
    alpha: Fraction | None = None,
    exponent: Exponent = "discrepancy",
    momentum_form: MomentumForm = "resolved",
    server_lr: Positive = 1.0,
    weighting: Weighting = "samples",
) -> Method:
    """FedWCM for clients of unequal size: ``w_k n_k`` renormalised, and ``lr_k = lr Bhat / B_k`` by a client's steps."""
    # All clients travel lr Bhat, so the mean by which the momentum is divided is just that.
    momentum = weighted_client_momentum(target, score, temperature_scale, alpha, exponent, momentum_form)
    return Method((rate_by_steps(), momentum, *optional_server_step(server_lr)), weighting)
