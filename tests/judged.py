"""A rule that weighs clients by how their models do on what other clients hold out."""

from __future__ import annotations

import torch
from torch import Tensor

from counterpoise.core.method import Method, build_method, compose
from counterpoise.core.part import Chart, Exchange, Pair, Part
from counterpoise.core.tree import Tree

WORKERS = {1: (1, 4, 5), 3: (3, 0)}  # client -> who judges its model


def _pairs(exchange: Exchange) -> list[Pair]:
    places = {int(client): place for place, client in enumerate(exchange.replies.client)}
    return [
        Pair(worker, places[client])
        for client, workers in WORKERS.items()
        if client in places
        for worker in workers
    ]


def weigh_by_hits(weights: Tensor, slot: Tree, exchange: Exchange) -> tuple[Tensor, Tree]:
    """Weights by the share of right answers that a model's workers count."""
    if exchange.ask is None:
        return weights, slot
    pairs = _pairs(exchange)
    found = exchange.ask(pairs)["confusion"].double()
    hits, all_ = (torch.zeros_like(weights) for _ in range(2))
    for pair, one in zip(pairs, found, strict=True):
        hits[pair.model] += one.diagonal().sum()
        all_[pair.model] += one.sum()
    return (1 + hits) / (1 + hits).sum(), {"hits": hits, "judged": all_}


def judged() -> Method:
    chart = Chart("hits", "bars", "Right answers", lambda slot: slot.get("hits", torch.zeros(0)))
    return compose(build_method("fedavg"), Part("judged", weigh=weigh_by_hits, charts=(chart,)))
