"""MOON: Li, He & Song 2021, arXiv:2103.16257, equations 2 to 4, on the features before the last layer."""

from __future__ import annotations

from counterpoise.core.method import Method, Weighting, method
from counterpoise.parts.contrastive import PAPER, model_contrastive
from counterpoise.registry.schema import NonNegative, Positive


@method(paper=PAPER, off={"mu": 0.0})
def moon(mu: NonNegative = 1.0, temperature: Positive = 0.5, weighting: Weighting = "samples") -> Method:
    """``cross-entropy + mu l_con``: features are drawn to the global model's and away from those of the client's last model."""
    return Method((model_contrastive(mu, temperature),), weighting)
