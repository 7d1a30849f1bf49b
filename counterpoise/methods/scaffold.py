"""SCAFFOLD: Karimireddy et al. 2020, arXiv:1910.06378, Algorithm 1, option II."""

from __future__ import annotations

import torch

from counterpoise.core.method import Method, Weighting, method, part
from counterpoise.core.part import Census, Chart, Exchange, Part, Stats, Step
from counterpoise.core.tree import Params, Tree, add, mix, norm, subtract, tmap, zeros
from counterpoise.parts.server import optional_server_step
from counterpoise.registry.schema import Positive

TINY = 1e-12
PAPER = "Karimireddy et al. 2020, arXiv:1910.06378, Algorithm 1"


@part("control_variates", paper=PAPER)
def control_variates() -> Part:
    """``g + c - c_k``; then ``c_k <- c_k - c - delta_k / (lr steps)`` and ``c <- c + (1/N) sum_S change of c_k``.

    N is the number of all clients, not of those that answered.
    """

    def init(params: Params, census: Census, surveys: Tree) -> Tree:
        return {"control": zeros(params)}

    def enroll(params: Params, classes: int) -> Tree:
        return {"control": zeros(params)}

    def send(slot: Tree, round: int) -> Tree:
        return slot

    def start(params: Params, shared: Tree, memory: Tree, stats: Stats) -> Tree:
        return {"correction": subtract(shared["control"], memory["control"])}

    def adjust(grads: Params, slot: Tree, step: Step) -> tuple[Params, Tree]:
        return add(grads, slot["correction"]), slot

    def finish(delta: Params, slot: Tree, memory: Tree, stats: Stats) -> tuple[Tree, Tree]:
        travelled = (stats.lr * stats.steps).clamp(min=TINY)  # a client that took no step stays where it was
        control = tmap(lambda correction, d: -correction - d / travelled, slot["correction"], delta)
        return {"change": subtract(control, memory["control"])}, {"control": control}

    def update(delta: Params, slot: Tree, exchange: Exchange) -> tuple[Params, Tree]:
        shares = torch.full_like(exchange.weights, 1 / exchange.clients)
        change = mix(shares, exchange.replies.upload["control_variates"]["change"])
        return delta, {"control": add(slot["control"], change)}

    return Part(
        "control_variates",
        init=init,
        enroll=enroll,
        send=send,
        start=start,
        adjust=adjust,
        finish=finish,
        update=update,
        charts=(
            Chart(
                "control", "curve", "Norm of the server's control variate", lambda slot: norm(slot["control"])
            ),
        ),
    )


@method("scaffold", paper=PAPER, renamed={"server": "server_lr"})
def scaffold(server_lr: Positive = 1.0, weighting: Weighting = "uniform") -> Method:
    """``y <- y - lr (g + c - c_k)``, ``x <- x + server_lr * mean_S (y_k - x)``; use it without local momentum."""
    return Method((control_variates(), *optional_server_step(server_lr)), weighting)
