"""Padding changes nothing: short batches count only their real samples, whatever fills the other rows."""

from __future__ import annotations

import torch

from counterpoise.client.differentiate import Differentiate, direct_gradient, functional_gradient
from counterpoise.client.round import Progress, begin, step
from counterpoise.contracts.contract import require_close
from counterpoise.contracts.small import simulate
from counterpoise.core.messages import Task
from counterpoise.core.method import MethodSpec
from counterpoise.core.part import Batch
from counterpoise.core.rng import generator
from counterpoise.engines.opening import open_task
from counterpoise.engines.service import first_memory
from counterpoise.run.simulation import Simulation
from counterpoise.server.round import announce

CLIENTS = (0, 4)  # one with all classes, one with a single class
REAL, FILLED = 5, 8


def padding_is_ignored(spec: MethodSpec) -> None:
    """What stands in padded rows has no effect on a step."""
    for client in CLIENTS:
        sim = simulate(spec)
        if not sim.work.model.mixes:  # such batches are never padded
            _padding_is_ignored(sim, client)


def _padding_is_ignored(sim: Simulation, client: int) -> None:
    data = sim.work.federation.client(client)
    x, y = sim.work.federation.train.x[data.rows[:REAL]], data.labels[:REAL]
    fill = FILLED - REAL
    garbage = 1e3 * torch.randn((fill, *x.shape[1:]), generator=generator(0, "garbage"), dtype=x.dtype)
    filled, labels = torch.cat([x, garbage]), torch.cat([y, torch.tensor([3, 0, 1])])
    mask = (torch.arange(FILLED) < REAL).to(x.dtype)
    plain = first_step(sim, client, Batch(x, y, torch.ones_like(mask[:REAL])), functional_gradient)
    for differentiate in (functional_gradient, direct_gradient):
        padded = first_step(sim, client, Batch(filled, labels, mask), differentiate)
        words = "what fills up a short batch changes a step: leave out rows where batch.mask is 0"
        require_close(padded._asdict(), plain._asdict(), 1e-12, words)


def first_step(sim: Simulation, client: int, batch: Batch, differentiate: Differentiate) -> Progress:
    """A client's model and slots after one step on a batch."""
    state, work, method = sim.open(), sim.work, sim.method
    broadcast = announce(method, state, 0.1)
    memory = first_memory(work, state.params, state.buffers)
    opened = open_task(work, Task(client), memory, broadcast)
    progress = begin(method, state.params, state.buffers, broadcast.shared, opened.memory, opened.stats)
    return step(method, work.model, progress, batch, opened.stats, differentiate)
