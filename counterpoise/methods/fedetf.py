"""FedETF: Li et al. 2023, arXiv:2303.10058, and the variant that FedReLa (paper 003) calls by this name, spec 2.5.16."""

from __future__ import annotations

from counterpoise.core.method import Method, Weighting, method
from counterpoise.parts.frames import FEDETF, dot_regression, etf_projection
from counterpoise.parts.losses import balanced_softmax
from counterpoise.registry.schema import NonNegative


@method(paper=FEDETF)
def fedetf(tau: NonNegative = 1.0, weighting: Weighting = "samples") -> Method:
    """FedAvg with a fixed simplex frame for a classifier, on unit features, by balanced softmax with the client's counts.

    The paper's personal fine-tuning is left out.
    """
    return Method((etf_projection(), balanced_softmax(tau)), weighting)


@method(paper="FedReLa, released code")
def fedetf_dr(weighting: Weighting = "samples") -> Method:
    """FedAvg with a fixed simplex frame, on normalised features that are drawn to their class's vector by dot regression."""
    return Method((dot_regression(),), weighting)
