"""FedDecorr: Shi et al. 2023, arXiv:2210.00226, on the features before the last layer; read as spec 8."""

from __future__ import annotations

from counterpoise.core.method import Method, Weighting, method
from counterpoise.parts.decorrelation import PAPER, decorrelation
from counterpoise.registry.schema import NonNegative


@method(paper=PAPER, off={"beta": 0.0})
def feddecorr(beta: NonNegative = 0.1, weighting: Weighting = "samples") -> Method:
    """``cross-entropy + beta / d^2 ||K||_F^2``: FedAvg whose clients keep the features of a batch uncorrelated."""
    return Method((decorrelation(beta),), weighting)
