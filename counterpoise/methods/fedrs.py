"""FedRS: Li & Zhan 2021, KDD, restricted softmax; read as spec 8."""

from __future__ import annotations

from counterpoise.core.method import Method, Weighting, method
from counterpoise.parts.losses import FEDRS, restricted_softmax
from counterpoise.registry.schema import Fraction


@method(paper=FEDRS, off={"alpha": 1.0})
def fedrs(alpha: Fraction = 0.5, weighting: Weighting = "samples") -> Method:
    """``cross-entropy(s z)``, ``s_c = alpha`` for classes that a client does not have: FedAvg with a restricted softmax."""
    return Method((restricted_softmax(alpha),), weighting)
