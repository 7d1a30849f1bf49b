"""Elastic aggregation: Chen et al. 2023, CVPR; sensitivity element by element, as in the paper (spec 3.1)."""

from __future__ import annotations

from counterpoise.core.method import Method, Weighting, method
from counterpoise.parts.elastic import ELASTIC, elastic_aggregation
from counterpoise.registry.schema import NonNegative, ProperFraction


@method(paper=ELASTIC)
def elastic(tau: NonNegative = 0.5, decay: ProperFraction = 0.95, weighting: Weighting = "samples") -> Method:
    """FedAvg whose mean delta is damped, element by element, where the outputs depend on a parameter."""
    return Method((elastic_aggregation(tau, decay),), weighting)
