"""CReFF: Shang et al. 2022, IJCAI, arXiv:2204.13399, as in spec 3.3."""

from __future__ import annotations

from counterpoise.core.method import Method, Weighting, method
from counterpoise.parts.federated_features import CREFF, federated_features
from counterpoise.registry.schema import Count, Positive, Whole


@method(paper=CREFF, off={"features": 0})
def creff(
    features: Whole = 100,
    match_steps: Count = 100,
    match_lr: Positive = 0.1,
    epochs: Count = 300,
    lr: Positive = 0.01,
    weighting: Weighting = "samples",
) -> Method:
    """FedAvg, scored with a head that the server re-trains on features made to match the clients' gradients, as many for each class."""
    return Method((federated_features(features, match_steps, match_lr, epochs, lr),), weighting)
