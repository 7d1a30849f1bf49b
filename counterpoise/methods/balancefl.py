"""BalanceFL: Shuai et al. 2022 (IPSN); read as spec 3.3."""

from __future__ import annotations

from counterpoise.core.method import Method, Weighting, method
from counterpoise.parts.inheritance import (
    PAPER,
    knowledge_inheritance,
    present_classes,
    smooth_regularisation,
)
from counterpoise.parts.sampler import balanced_sampler
from counterpoise.registry.schema import NonNegative, Positive


@method(paper=PAPER)
def balancefl(
    inherit: NonNegative = 1.0,
    temperature: Positive = 2.0,
    entropy: NonNegative = 0.002,
    noise: NonNegative = 1.0,
    restrict: bool = True,
    weighting: Weighting = "samples",
) -> Method:
    """Classes drawn equally often, cross-entropy over a batch's classes on noisy features, other classes as the received model says.

    ``CE(head(f + noise e))`` over the classes of the batch, ``+ inherit KD`` over the others, ``- entropy H``. With all of them off
    it is FedAvg with `balanced_sampler`.
    """
    parts = (
        balanced_sampler(),
        present_classes(restrict, noise),
        knowledge_inheritance(inherit, temperature),
        smooth_regularisation(entropy),
    )
    return Method(parts, weighting)
