"""How far clients went, and the direction that they follow next: what several rules against drift share."""

from __future__ import annotations

from typing import Literal, TypeAlias

import torch
from torch import Tensor

from counterpoise.core.part import Exchange, Stats
from counterpoise.core.tree import Params, Tree, mix, multiply, tmap

TINY = 1e-12
TRAVELLED = "its number of local steps, times the learning rate"  # what `travel` uploads, in words
MomentumForm: TypeAlias = Literal["resolved", "scaled", "printed"]


def length_of(stats: Stats) -> Tensor:
    """``lr steps``, by which a delta becomes a mean gradient; a client that took no step stays where it was."""
    return (stats.lr * stats.steps).clamp(min=TINY)


def over_all_clients(exchange: Exchange, stacked: Params) -> Params:
    """``(1 / N) sum over the round's clients``: those that were not asked count as unchanged."""
    return mix(torch.full_like(exchange.weights, 1 / exchange.clients), stacked)


def follow(grads: Params, direction: Params, alpha: float | Tensor) -> Params:
    """``alpha g + (1 - alpha) m``: alpha is the share of the client's own gradient."""
    return tmap(lambda g, m: torch.lerp(m, g, alpha), grads, direction)


def travel(stats: Stats) -> Tree:
    """What a client uploads for `server_turn`: how far unit gradients would have taken it."""
    return {"travelled": stats.lr * stats.steps}


def server_turn(delta: Params, exchange: Exchange, form: MomentumForm) -> tuple[Params, Params]:
    """What the server adds to the model, and the direction that clients follow next; ``d = delta / (lr mean steps)``.

    resolved: delta and -d. scaled: d and -d, the server's step divided as well. printed: -d and d, with the signs of
    FedWCM's Algorithm 1, by which both server and momentum go uphill.
    """
    length = exchange.upload["travelled"].mean()
    downhill = multiply(delta, -1 / length.clamp(min=TINY))
    if form == "resolved":
        return delta, downhill
    uphill = multiply(downhill, -1.0)
    return (uphill, downhill) if form == "scaled" else (downhill, uphill)
