"""FedRoD: Chen & Chao 2022, arXiv:2107.00778, with a linear private head."""

from __future__ import annotations

from counterpoise.core.method import Method, Weighting, method
from counterpoise.parts.losses import balanced_softmax
from counterpoise.parts.personal import FEDROD, private_head


@method(paper=FEDROD)
def fedrod(weighting: Weighting = "samples") -> Method:
    """The shared model learns by balanced softmax with local counts, a private head beside it by cross-entropy."""
    return Method((balanced_softmax(), private_head()), weighting)
