"""FedReLa: paper 003, Algorithm 1, on FedAvg; the part `relabel` goes with any other method."""

from __future__ import annotations

from counterpoise.core.method import Method, Weighting, method
from counterpoise.parts.relabel import PAPER, Audit, Chance, Percent, relabel
from counterpoise.registry.schema import Count, Moment


@method(paper=PAPER, off={"tau": 0.0})
def fedrela(
    at: Moment = 0.9,
    tau: Percent = 5.0,
    passes: Count = 1,
    cap: Chance | None = None,
    standardise: bool = True,
    thresholds: list[float] | None = None,
    audit: Audit = "share",
    weighting: Weighting = "samples",
) -> Method:
    """FedAvg whose clients once give samples of their frequent classes the labels of rarer ones that the model sees in them.

    Lower the learning rate from then on by ``local.schedule = { steps = { at = [0.9] } }``, for what it is compared with too.
    """
    return Method((relabel(at, tau, passes, cap, standardise, thresholds, audit),), weighting)
