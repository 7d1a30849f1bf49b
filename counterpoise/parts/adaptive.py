"""Step sizes for each parameter, shared between clients."""

from __future__ import annotations

import torch

from counterpoise.core.method import part
from counterpoise.core.part import Census, Exchange, Part, Reveals, Stats, Step, known_below, whole_slot
from counterpoise.core.tree import Params, Tree, tmap, zeros
from counterpoise.parts.travel import length_of
from counterpoise.registry.schema import Fraction, Positive, ProperFraction

FEDLADA = "Sun et al. 2023, arXiv:2308.00522"


@part(paper=FEDLADA)
def amended_adaptive(
    alpha: Fraction = 0.1,
    beta1: ProperFraction = 0.9,
    beta2: ProperFraction = 0.99,
    eps: Positive = 1e-3,
) -> Part:
    """``alpha m / sqrt(v_max) + (1 - alpha) g_a``: AMSGrad from the server's v, amended by the last global direction g_a.

    ``m <- beta1 m + (1 - beta1) g`` from 0, ``v <- beta2 v + (1 - beta2) g^2``, ``v_max <- max(v_max, v)``. The server's v is the
    plain mean of the clients' v_max, at first eps^2, and ``g_a = mean (x - y_k) / (lr steps)``.
    """

    def init(params: Params, census: Census, surveys: Tree) -> Tree:
        # A square of eps that rounds to 0 would divide 0 by 0 where there is no gradient.
        square = tmap(lambda p: torch.full_like(p, max(eps**2, torch.finfo(p.dtype).tiny)), params)
        return {"square": square, "direction": zeros(params)}

    def start(params: Params, shared: Tree, memory: Tree, stats: Stats) -> Tree:
        square = shared["square"]
        return {"mean": zeros(params), "square": square, "largest": square, "direction": shared["direction"]}

    def adjust(grads: Params, slot: Tree, step: Step) -> tuple[Params, Tree]:
        mean = tmap(lambda m, g: torch.lerp(g, m, beta1), slot["mean"], grads)
        square = tmap(lambda v, g: torch.lerp(g.square(), v, beta2), slot["square"], grads)
        largest = tmap(torch.maximum, slot["largest"], square)
        direction = tmap(
            lambda m, v, a: alpha * m / v.sqrt() + (1 - alpha) * a, mean, largest, slot["direction"]
        )
        return direction, slot | {"mean": mean, "square": square, "largest": largest}

    def finish(delta: Params, slot: Tree, memory: Tree, stats: Stats) -> tuple[Tree, Tree]:
        travelled = length_of(stats)
        return {"largest": slot["largest"], "direction": tmap(lambda d: -d / travelled, delta)}, memory

    def update(delta: Params, slot: Tree, exchange: Exchange) -> tuple[Params, Tree]:
        means = tmap(lambda leaf: leaf.mean(0), exchange.upload)
        return delta, {"square": means["largest"], "direction": means["direction"]}

    words = "the largest mean square of each parameter's gradients, and its update over its number of local steps: two vectors as long as the model"
    return Part(
        init=init, send=whole_slot, start=start, adjust=adjust, finish=finish, update=update, reveals=Reveals(upload=words),
        follows_server=known_below(alpha, 1), assumes_sgd=True,  # it is an optimizer itself
    )  # fmt: skip
