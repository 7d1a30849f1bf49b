"""FedLoGe: Xiao et al. 2024, arXiv:2401.08977, Algorithm 1."""

from __future__ import annotations

from counterpoise.core.method import Method, Weighting, method
from counterpoise.parts.aligned import FEDLOGE, realigned_heads
from counterpoise.registry.schema import Positive


@method(paper=FEDLOGE)
def fedloge(length: Positive = 1.7, weighting: Weighting = "samples") -> Method:
    """FedAvg of features that learn by a fixed sparse frame, scored with a shared classifier whose rows are equally long."""
    return Method((realigned_heads(length),), weighting)
