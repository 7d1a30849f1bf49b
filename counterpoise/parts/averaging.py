"""How much of each update counts, by what its client's steps amount to."""

from __future__ import annotations

from typing import Literal

from counterpoise.core.method import part
from counterpoise.core.part import Exchange, Part, Reveals, Stats, Step
from counterpoise.core.tree import Params, Tree, scale_rows
from counterpoise.registry.schema import NonNegative

PAPER = "Wang et al. 2020, arXiv:2007.07481"


@part(paper=PAPER)
def normalised_averaging(mu: NonNegative = 0.0, effective: Literal["response", "steps"] = "response") -> Part:
    """``delta <- tau_eff sum_k w_k delta_k / a_k``, a_k the sum of a client's gradient coefficients.

    a_k follows the local rule step by step, ``v <- rho v + 1 - lr mu a``, ``a <- a + v``: steps for plain SGD, the
    paper's closed forms for momentum rho (from ``[local]``) and for a proximal term mu. tau_eff is the weighted mean of
    a_k, or, as in the authors' code with a proximal term, of the steps.
    """

    def start(params: Params, shared: Tree, memory: Tree, stats: Stats) -> Tree:
        return {"velocity": 0 * stats.lr, "response": 0 * stats.lr}

    def adjust(grads: Params, slot: Tree, step: Step) -> tuple[Params, Tree]:
        velocity = step.stats.momentum * slot["velocity"] + 1 - step.stats.lr * mu * slot["response"]
        return grads, {"velocity": velocity, "response": slot["response"] + velocity}

    def finish(delta: Params, slot: Tree, memory: Tree, stats: Stats) -> tuple[Tree, Tree]:
        return {"response": slot["response"], "steps": stats.steps}, memory

    def treat(deltas: Params, slot: Tree, exchange: Exchange) -> Params:
        sent = {key: value.double().cpu() for key, value in exchange.upload.items()}
        shares = exchange.weights / exchange.weights.sum()
        tau = (shares * sent[effective]).sum()
        return scale_rows(deltas, tau / sent["response"].clamp(min=1e-12))

    return Part(
        start=start,
        adjust=adjust,
        finish=finish,
        treat=treat,
        reveals=Reveals(upload="its number of local steps, and the sum of its gradient coefficients"),
        assumes_sgd=True,  # a_k is how far gradients of length 1 take a client
    )
