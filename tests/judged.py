"""Rules that weigh clients by how their models do on what other clients hold out: one of our own, and FedSat's in plain code."""

from __future__ import annotations

import numpy as np
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


def priority_weights_by_hand(confusions: np.ndarray, norm: str, sigma: float = 1.0) -> np.ndarray:
    """The rule of spec 2.6, client by client and class by class."""
    clients, classes, _ = confusions.shape
    missed, raised = np.zeros((clients, classes)), np.zeros((clients, classes))
    for k in range(clients):
        for i in range(classes):
            hit, true, said = confusions[k, i, i], confusions[k, i].sum(), confusions[k, :, i].sum()
            missed[k, i] = (true - hit) / true if true else 0
            raised[k, i] = (said - hit) / max(confusions[k].sum() - true, 1)
    errors = np.zeros((clients, classes))
    for k in range(clients):
        for i in range(classes):
            for share, rates in ((0.3, missed), (0.2, raised)):
                largest = rates[k].max() if norm == "client" else rates.max()
                errors[k, i] += share * rates[k, i] / largest if largest else 0
    total, of_class = errors.sum(1), errors.sum(0)
    priority = next(c for c in range(classes) if of_class[c] >= of_class.max() * (1 - 1e-9))
    kept = [k for k in range(clients) if total[k] <= sigma * total.mean() * (1 + 1e-9)]
    kept = kept or [next(k for k in range(clients) if total[k] <= total.min() * (1 + 1e-9))]
    weights = np.zeros(clients)
    for k in kept:
        accuracy = sum(
            confusions[k, i, i] / confusions[k, i].sum() for i in range(classes) if confusions[k, i].sum()
        )
        weights[k] = accuracy * max(1, confusions[k, priority, priority]) / max(total[k], 1e-8)
    if not weights.sum():
        weights[kept] = 1
    return weights / weights.sum()
