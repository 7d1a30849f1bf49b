"""FedLESAM: Fan et al. 2024, arXiv:2405.18890, equation 8.

The authors' code indexes one flat vector from the start for every tensor, so its perturbation is wrong; this follows
the paper (spec 3.1).
"""

from __future__ import annotations

from counterpoise.core.method import Method, Weighting, method, part
from counterpoise.core.part import Census, Exchange, Gradient, Part, Stats, Step
from counterpoise.core.tree import Params, Tree, add, multiply, norm, subtract
from counterpoise.registry.schema import NonNegative

PAPER = "Fan et al. 2024, arXiv:2405.18890"


@part("global_perturbation", paper=PAPER, off={"rho": 0.0})
def global_perturbation(rho: NonNegative = 0.1) -> Part:
    """``g <- grad f(y + e)``, ``e = rho (x_{t-1} - x_t) / ||x_{t-1} - x_t||`` constant over a round, 0 in round 0."""

    def init(params: Params, census: Census, surveys: Tree) -> Tree:
        return {"previous": params}

    def send(slot: Tree, round: int) -> Tree:
        return slot

    def start(params: Params, shared: Tree, memory: Tree, stats: Stats) -> Tree:
        back = subtract(shared["previous"], params)
        return {"perturbation": multiply(back, rho / norm(back).clamp(min=1e-12))}

    def gradient(slot: Tree, step: Step) -> tuple[Gradient, Tree]:
        return step.gradient_at(add(step.params, slot["perturbation"])), slot

    def update(delta: Params, slot: Tree, exchange: Exchange) -> tuple[Params, Tree]:
        return delta, {"previous": exchange.params}

    return Part("global_perturbation", init=init, send=send, start=start, gradient=gradient, update=update)


@method("fedlesam", paper=PAPER, off={"rho": 0.0})
def fedlesam(rho: NonNegative = 0.1, weighting: Weighting = "samples") -> Method:
    """SAM with the last global movement as the ascent direction: one pass per step."""
    return Method((global_perturbation(rho),), weighting)
