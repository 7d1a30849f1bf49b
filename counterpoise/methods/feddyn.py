"""FedDyn: Acar et al. 2021, arXiv:2111.04263, Algorithm 1, in the form of the authors' code (h = -grad / alpha)."""

from __future__ import annotations

import torch

from counterpoise.core.method import Method, Weighting, method, part
from counterpoise.core.part import Census, Exchange, Part, Stats, Step
from counterpoise.core.tree import Params, Tree, add, mix, subtract, zeros
from counterpoise.registry.schema import NonNegative

PAPER = "Acar et al. 2021, arXiv:2111.04263, Algorithm 1"


@part("dynamic_regulariser", paper=PAPER)
def dynamic_regulariser(alpha: NonNegative = 0.1) -> Part:
    """``g + alpha (y - x + h_k)``, ``h_k <- h_k + y_k - x``; the server adds the mean of all clients' h."""

    def init(params: Params, census: Census, surveys: Tree) -> Tree:
        return {"drift": zeros(params)}

    def enroll(params: Params, classes: int) -> Tree:
        return {"drift": zeros(params)}

    def start(params: Params, shared: Tree, memory: Tree, stats: Stats) -> Tree:
        return {"pull": subtract(memory["drift"], params)}

    def adjust(grads: Params, slot: Tree, step: Step) -> tuple[Params, Tree]:
        return add(grads, add(step.params, slot["pull"]), alpha), slot

    def finish(delta: Params, slot: Tree, memory: Tree, stats: Stats) -> tuple[Tree, Tree]:
        return {}, {"drift": add(memory["drift"], delta)}

    def update(delta: Params, slot: Tree, exchange: Exchange) -> tuple[Params, Tree]:
        shares = torch.full_like(exchange.weights, 1 / exchange.clients)
        drift = add(slot["drift"], mix(shares, exchange.replies.delta))
        return add(delta, drift), {"drift": drift}

    return Part(
        "dynamic_regulariser",
        init=init,
        enroll=enroll,
        start=start,
        adjust=adjust,
        finish=finish,
        update=update,
        uploads=False,
    )


@method("feddyn", paper=PAPER)
def feddyn(alpha: NonNegative = 0.1, weighting: Weighting = "uniform") -> Method:
    """``x <- mean_S y_k + mean over all clients of h``, h the sum of each client's updates so far."""
    return Method((dynamic_regulariser(alpha),), weighting)
