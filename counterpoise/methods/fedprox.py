"""FedProx: Li et al. 2020, arXiv:1812.06127, equation 2."""

from __future__ import annotations

from counterpoise.core.method import Method, Weighting, method, part
from counterpoise.core.part import Part, Stats, Step
from counterpoise.core.tree import Params, Tree, add, subtract
from counterpoise.registry.schema import NonNegative

PAPER = "Li et al. 2020, arXiv:1812.06127"


@part("prox", paper=PAPER, off={"mu": 0.0})
def prox(mu: NonNegative = 0.01) -> Part:
    """``g + mu (y - x)``: the gradient of ``mu / 2 ||y - x||^2``."""

    def start(params: Params, shared: Tree, memory: Tree, stats: Stats) -> Tree:
        return {"anchor": params}

    def adjust(grads: Params, slot: Tree, step: Step) -> tuple[Params, Tree]:
        return add(grads, subtract(step.params, slot["anchor"]), mu), slot

    return Part("prox", start=start, adjust=adjust)


@method("fedprox", paper=PAPER, off={"mu": 0.0})
def fedprox(mu: NonNegative = 0.01, weighting: Weighting = "samples") -> Method:
    """Local loss plus ``mu / 2 ||y - x||^2``; the server averages as FedAvg."""
    return Method((prox(mu),), weighting)
