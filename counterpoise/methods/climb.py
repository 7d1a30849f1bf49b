"""CLIMB: Shen et al. 2022, ICLR, Algorithm 1, with FedAvg as the inner solver."""

from __future__ import annotations

from counterpoise.core.method import Method, Weighting, method
from counterpoise.parts.duals import CLIMB, loss_duals
from counterpoise.registry.schema import Count, NonNegative, Positive


@method(paper=CLIMB, off={"lr": 0.0})
def climb(
    lr: NonNegative = 1.0,
    eps: NonNegative = 1.0,
    every: Count = 5,
    most: Positive = 100.0,
    weighting: Weighting = "uniform",
) -> Method:
    """FedAvg that keeps each client's loss within eps of the mean: a client above it gets a larger weight in its own loss.

    Beside `relabel` list that first: ``["relabel", "climb"]``, so that losses are of the new labels.
    """
    return Method((loss_duals(lr, eps, every, most),), weighting)
