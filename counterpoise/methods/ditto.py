"""Ditto: Li et al. 2021, arXiv:2012.04221, Algorithm 1, with FedAvg for the shared model."""

from __future__ import annotations

from counterpoise.core.method import Method, Weighting, method
from counterpoise.parts.personal import DITTO, personal_model
from counterpoise.registry.schema import NonNegative


@method(paper=DITTO)
def ditto(pull: NonNegative = 0.1, weighting: Weighting = "samples") -> Method:
    """FedAvg, and on each client a model of its own: ``v <- v - lr (g(v) + pull (v - x))``; see `evaluate.personal`."""
    return Method((personal_model(pull),), weighting)
