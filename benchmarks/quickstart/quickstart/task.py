"""The same model, partition and local training as the run it is compared with."""

from __future__ import annotations

from functools import lru_cache

import torch
from torch import nn

import counterpoise as cp
from counterpoise.data.federation import Federation


def make_net() -> nn.Module:
    torch.manual_seed(0)
    return nn.Sequential(
        nn.Flatten(), nn.Linear(64, 200), nn.ReLU(), nn.Linear(200, 100), nn.ReLU(), nn.Linear(100, 10)
    )


@lru_cache(maxsize=1)
def load(clients: int) -> Federation:
    return cp.split(cp.load_data("digits", imbalance=20.0), "dirichlet", clients=clients, alpha=0.5, seed=0)


def train(net: nn.Module, clients: int, number: int) -> tuple[float, int]:
    """One epoch of SGD in batches of 32; the mean loss and the number of samples."""
    torch.set_num_threads(1)
    federation = load(clients)
    rows = federation.clients[number]
    x, y = federation.train.x[rows].float(), federation.train.y[rows]
    x = x.reshape(len(x), -1) / max(float(x.max()), 1.0)
    optimizer, total = torch.optim.SGD(net.parameters(), lr=0.1), 0.0
    for batch in torch.randperm(len(y)).split(32):
        optimizer.zero_grad()
        loss = nn.functional.cross_entropy(net(x[batch]), y[batch])
        loss.backward()
        optimizer.step()
        total += float(loss) * len(batch)
    return total / len(y), len(y)
