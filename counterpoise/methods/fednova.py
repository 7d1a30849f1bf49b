"""FedNova: Wang et al. 2020, arXiv:2007.07481, equation 5 and section 4."""

from __future__ import annotations

from typing import Literal

from counterpoise.core.method import Method, Weighting, method
from counterpoise.parts.averaging import PAPER, normalised_averaging
from counterpoise.parts.drift import prox
from counterpoise.registry.schema import NonNegative


@method(paper=PAPER)
def fednova(
    mu: NonNegative = 0.0,
    effective: Literal["response", "steps"] = "response",
    weighting: Weighting = "samples",
) -> Method:
    """Each update divided by the sum of its client's gradient coefficients, so that more steps give no more weight."""
    return Method((*([prox(mu)] if mu else []), normalised_averaging(mu, effective)), weighting)
