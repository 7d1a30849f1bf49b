"""Padding changes nothing: short batches count only their real samples, whatever fills the other rows."""

from __future__ import annotations

from copy import deepcopy
from dataclasses import replace

import pytest
import torch
from federations import (
    CLASSES,
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

from counterpoise.client.differentiate import Differentiate, direct_gradient, functional_gradient
from counterpoise.client.plan import make_plan
from counterpoise.client.round import Progress, begin, step
from counterpoise.core.local import Local
from counterpoise.core.messages import Broadcast, Task
from counterpoise.core.method import MethodSpec
from counterpoise.core.part import Batch, call
from counterpoise.core.rng import generator
from counterpoise.engines.workplace import open_task
from counterpoise.run.simulation import Simulation


def _first_step(sim: Simulation, client: int, batch: Batch, differentiate: Differentiate) -> Progress:
    """A client's model and slots after one step on a batch."""
    state, work, method = sim.open(), sim.work, sim.method
    shared = {part.name: call(part.send, {}, state.slots.get(part.name, {}), 0) for part in method.parts}
    memory = {
        part.name: part.enroll(state.params, state.buffers, CLASSES)
        for part in method.parts
        if part.enroll is not None
    }
    opened = open_task(work, Task(client), memory, Broadcast(0, 0.1, state.params, state.buffers, shared))
    progress = begin(method, state.params, state.buffers, shared, opened.memory, opened.stats)
    return step(method, work.model, progress, batch, opened.stats, differentiate)


@pytest.mark.parametrize("client", [0, 4])
@pytest.mark.parametrize("spec", every_spec(), ids=spec_name)
def test_what_stands_in_padded_rows_has_no_effect(spec: MethodSpec, client: int) -> None:
    sim = simulate(spec)
    if sim.work.model.has_batch_norm:
        assert sim.work.local.batching == "wrap"  # such batches are never padded
        return
    data = sim.work.federation.client(client)
    x, y = sim.work.federation.train.x[data.rows[:5]], data.labels[:5]
    garbage = 1e3 * torch.randn((3, *x.shape[1:]), generator=generator(0, "garbage"), dtype=x.dtype)
    filled, labels = torch.cat([x, garbage]), torch.cat([y, torch.tensor([3, 0, 1])])
    mask = (torch.arange(8) < 5).to(x.dtype)
    plain = _first_step(sim, client, Batch(x, y, torch.ones_like(mask[:5])), functional_gradient)
    for differentiate in (functional_gradient, direct_gradient):
        padded = _first_step(sim, client, Batch(filled, labels, mask), differentiate)
        assert distance(plain._asdict(), padded._asdict()) < 1e-12


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
