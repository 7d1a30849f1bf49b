"""FedCM: Xu et al. 2021, arXiv:2106.10874, Algorithm 2."""

from __future__ import annotations

import torch

from counterpoise.core.method import Method, Weighting, method, part
from counterpoise.core.part import Census, Exchange, Part, Stats, Step
from counterpoise.core.tree import Params, Tree, multiply, tmap, zeros
from counterpoise.parts.server import optional_server_step
from counterpoise.registry.schema import Fraction, Positive

PAPER = "Xu et al. 2021, arXiv:2106.10874, Algorithm 2"


@part("server_direction", paper=PAPER, off={"alpha": 1.0})
def server_direction(alpha: Fraction = 0.1) -> Part:
    """``alpha g + (1 - alpha) m`` with ``m = -mean delta / (lr mean steps)`` of the round before, by that round's lr."""

    def init(params: Params, census: Census, surveys: Tree) -> Tree:
        return {"direction": zeros(params)}

    def send(slot: Tree, round: int) -> Tree:
        return slot

    def start(params: Params, shared: Tree, memory: Tree, stats: Stats) -> Tree:
        return shared

    def adjust(grads: Params, slot: Tree, step: Step) -> tuple[Params, Tree]:
        return tmap(lambda g, m: torch.lerp(m, g, alpha), grads, slot["direction"]), slot

    def finish(delta: Params, slot: Tree, memory: Tree, stats: Stats) -> tuple[Tree, Tree]:
        return {"travelled": stats.lr * stats.steps}, memory

    def update(delta: Params, slot: Tree, exchange: Exchange) -> tuple[Params, Tree]:
        travelled = exchange.replies.upload["server_direction"]["travelled"].mean()
        return delta, {"direction": multiply(delta, -1 / travelled.clamp(min=1e-12))}

    return Part(
        "server_direction", init=init, send=send, start=start, adjust=adjust, finish=finish, update=update
    )


@method("fedcm", paper=PAPER, off={"alpha": 1.0}, renamed={"server": "server_lr"})
def fedcm(alpha: Fraction = 0.1, server_lr: Positive = 1.0, weighting: Weighting = "uniform") -> Method:
    """``y <- y - lr (alpha g + (1 - alpha) m)``, m the server's last direction; ``x <- x + server_lr * mean delta``."""
    return Method((server_direction(alpha), *optional_server_step(server_lr)), weighting)
