"""Fed-Focal Loss: Sarkar, Narang & Rai 2020, arXiv:2011.06283: the focal loss, and a choice of clients."""

from __future__ import annotations

from counterpoise.core.method import Method, Weighting, method
from counterpoise.parts.client_focus import FEDFOCAL, Keep, client_focus
from counterpoise.parts.losses import focal
from counterpoise.registry.schema import NonNegative


@method(paper=FEDFOCAL, off={"gamma": 0.0, "focus": 0.0, "keep": 1.0})
def fedfocal(
    gamma: NonNegative = 2.0,
    focus: NonNegative = 1.0,
    keep: Keep = 1.0,
    weighting: Weighting = "samples",
) -> Method:
    """FedAvg in which hard samples count more on a client, and clients with more errors count more on the server."""
    return Method((focal(gamma), client_focus(focus, keep)), weighting)
