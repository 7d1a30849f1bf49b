"""FedExP: Jhunjhunwala et al. 2023, arXiv:2301.09604, Algorithm 1."""

from __future__ import annotations

from counterpoise.core.method import Method, Weighting, method, part
from counterpoise.core.part import Exchange, Part, Reveals, Stats
from counterpoise.core.tree import Params, Tree, multiply, norm
from counterpoise.registry.schema import Positive

PAPER = "Jhunjhunwala et al. 2023, arXiv:2301.09604"


@part(paper=PAPER)
def extrapolation(eps: Positive = 1e-3) -> Part:
    """``delta <- rate * delta``, ``rate = max(1, sum_k w_k ||delta_k||^2 / (2 (||delta||^2 + eps)))``.

    The more the clients' updates disagree, the shorter their mean is relative to them, and the longer the step.
    """

    def finish(delta: Params, slot: Tree, memory: Tree, stats: Stats) -> tuple[Tree, Tree]:
        # One number per client, so that the server needs no single update, only sums over clients.
        return {"square": norm(delta).square()}, memory

    def update(delta: Params, slot: Tree, exchange: Exchange) -> tuple[Params, Tree]:
        squares = exchange.upload["square"].double().cpu()  # [K]
        mean_square = float((exchange.weights * squares).sum())
        rate = max(1.0, mean_square / (2 * (float(norm(delta)) ** 2 + eps)))
        return multiply(delta, rate), slot

    return Part(finish=finish, update=update, reveals=Reveals(upload="the squared norm of its update"))


@method(paper=PAPER)
def fedexp(eps: Positive = 1e-3, weighting: Weighting = "uniform") -> Method:
    """FedAvg with a server step that is chosen in each round, never shorter than FedAvg's."""
    return Method((extrapolation(eps),), weighting)
