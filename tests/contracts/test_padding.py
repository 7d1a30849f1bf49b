"""Padding changes nothing: short batches count only their real samples, whatever fills the other rows."""

from __future__ import annotations

from copy import deepcopy
from dataclasses import replace

import pytest
import torch
from federations import (
    LOOP,
    STACKED,
    ask_clients,
    distance,
    every_spec,
    simulate,
    spec_name,
    unequal_federation,
)
from torch import Tensor, nn

from counterpoise.client.plan import make_plan
from counterpoise.contracts.padding import padding_is_ignored
from counterpoise.core.local import Local
from counterpoise.core.method import MethodSpec
from counterpoise.core.rng import generator
from counterpoise.run.simulation import Simulation


@pytest.mark.parametrize("spec", every_spec(), ids=spec_name)
def test_what_stands_in_padded_rows_has_no_effect(spec: MethodSpec) -> None:
    padding_is_ignored(spec)


def _train_plainly(sim: Simulation, client: int, lr: float, batch_size: int) -> dict[str, Tensor]:
    """FedAvg's local training by autograd on a module, on the planned order cut into unpadded batches."""
    module, data = deepcopy(sim.work.model.module), sim.work.federation.client(client)
    plan = make_plan(data, batch_size, 1, "pad", generator(sim.seed, "plan", 0, client))
    order = plan.positions.flatten()[: len(data.labels)]
    before = {name: p.detach().clone() for name, p in module.named_parameters()}
    optimizer = torch.optim.SGD(module.parameters(), lr=lr)
    for positions in torch.split(order, batch_size):
        optimizer.zero_grad()
        inputs = sim.work.federation.train.x[data.rows[positions]]
        nn.functional.cross_entropy(module(inputs), data.labels[positions]).backward()  # type: ignore[no-untyped-call]
        optimizer.step()
    return {name: p.detach() - before[name] for name, p in module.named_parameters()}


@pytest.mark.parametrize("batch_size", [1, 4, 12, 64])
@pytest.mark.parametrize("name", ["loop", "stacked"])
def test_padded_batches_equal_plain_torch_training_on_short_ones(name: str, batch_size: int) -> None:
    settings = LOOP if name == "loop" else replace(STACKED, chunk=6)
    federation = unequal_federation(sizes=(4, 9, 5, 7, 3, 1))
    local = Local(lr=0.1, batch_size=batch_size)
    sim = simulate("fedavg", federation=federation, local=local, engine=settings)
    state = sim.open()
    after, _ = ask_clients(sim, state, range(6))
    deltas = [_train_plainly(sim, client, 0.1, batch_size) for client in range(6)]
    shares = federation.samples().double() / federation.samples().sum()
    expected = {
        path: before + sum(share * delta[path] for share, delta in zip(shares, deltas, strict=True))
        for path, before in state.params.items()
    }
    assert distance(expected, after.params) < 1e-12
