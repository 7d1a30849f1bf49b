"""RedGrape: Yang et al. 2023, arXiv:2301.10394, with the supplementary head kept on the client."""

from __future__ import annotations

from counterpoise.core.method import Method, Weighting, method
from counterpoise.parts.rebalanced_head import REDGRAPE, rebalanced_head
from counterpoise.registry.schema import Count, NonNegative


@method(paper=REDGRAPE)
def redgrape(strength: NonNegative = 0.1, samples: Count = 8, weighting: Weighting = "samples") -> Method:
    """FedAvg with a private head beside the shared one, which is re-balanced by own samples and by gradients of other clients."""
    return Method((rebalanced_head(strength, samples),), weighting)
