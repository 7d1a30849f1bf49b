"""The local optimizer against torch.optim.SGD and torch's gradient clipping."""

from __future__ import annotations

from copy import deepcopy
from dataclasses import replace

import pytest
import torch
from federations import LOOP, STACKED, ask_clients, distance, simulate
from torch import Tensor, nn

from counterpoise.client.plan import make_plan
from counterpoise.core.local import Local
from counterpoise.core.method import build_method
from counterpoise.core.rng import generator
from counterpoise.parts.optimizer import with_local
from counterpoise.run.simulation import Simulation

BASE = Local(lr=0.3, batch_size=12, epochs=2)
LOCALS = {
    "plain": BASE,
    "momentum": replace(BASE, momentum=0.9),
    "decay": replace(BASE, weight_decay=0.1),
    "momentum and decay": replace(BASE, momentum=0.9, weight_decay=0.1),
    "clip": replace(BASE, clip=0.1),
    "all": replace(BASE, momentum=0.5, weight_decay=0.1, clip=0.1),
    "decoupled decay": replace(BASE, momentum=0.9, weight_decay=0.1, decoupled=True),
    "all decoupled": replace(BASE, momentum=0.5, weight_decay=0.1, clip=0.1, decoupled=True),
}


def _by_torch(sim: Simulation, client: int) -> dict[str, Tensor]:
    """A client's model after a round of torch's own optimizer on the same batches."""
    local, data, module = sim.work.local, sim.work.federation.client(client), deepcopy(sim.work.model.module)
    coupled = 0.0 if local.decoupled else local.weight_decay
    optimizer = torch.optim.SGD(module.parameters(), local.lr, local.momentum, weight_decay=coupled)
    plan = make_plan(
        data, local.batch_size, local.epochs, local.batching, generator(sim.seed, "plan", 0, client)
    )
    for positions, mask in zip(plan.positions, plan.mask, strict=True):
        rows, labels = data.rows[positions[mask]], data.labels[positions[mask]]
        optimizer.zero_grad()
        nn.functional.cross_entropy(module(sim.work.federation.train.x[rows]), labels).backward()  # type: ignore[no-untyped-call]
        if local.clip is not None:
            nn.utils.clip_grad_norm_(module.parameters(), local.clip)
        shrunk = {n: local.lr * local.weight_decay * p.detach() for n, p in module.named_parameters()}
        optimizer.step()
        if local.decoupled:
            with torch.no_grad():
                for name, parameter in module.named_parameters():
                    parameter.sub_(shrunk[name])
    return {name: p.detach() for name, p in module.named_parameters()}


@pytest.mark.parametrize("name", ["loop", "stacked"])
@pytest.mark.parametrize("local", LOCALS.values(), ids=LOCALS)
def test_local_training_equals_torchs_optimizer(local: Local, name: str) -> None:
    sim = simulate("fedavg", local=local, engine=LOOP if name == "loop" else replace(STACKED, chunk=2))
    after, _ = ask_clients(sim, sim.open(), [0])
    # torch divides by norm + 1e-6 where it clips, which moves the result by about that much.
    assert distance(after.params, _by_torch(sim, 0)) < (1e-5 if local.clip is not None else 1e-12)


def test_the_settings_of_the_optimizer_matter() -> None:
    results = []
    for local in LOCALS.values():
        sim = simulate("fedavg", local=local)
        results.append(ask_clients(sim, sim.open(), [0])[0].params)
    gaps = [distance(a, b) for i, a in enumerate(results) for b in results[:i]]
    assert min(gaps) > 1e-4


def test_a_clip_above_every_gradient_changes_nothing() -> None:
    wide, none = simulate("fedavg", local=replace(BASE, clip=1e6)), simulate("fedavg", local=BASE)
    first, second = ask_clients(wide, wide.open(), [0])[0], ask_clients(none, none.open(), [0])[0]
    assert distance(first.params, second.params) < 1e-14


def test_the_optimizers_parts_stand_around_the_methods_own() -> None:
    local = Local(momentum=0.9, weight_decay=0.1, clip=1.0)
    names = [part.name for part in with_local(build_method(["fedprox", "sam"]), local).parts]
    assert names == ["clip", "weight_decay", "prox", "sam", "momentum"]
    decoupled = with_local(build_method("fedprox"), replace(local, decoupled=True))
    assert [part.name for part in decoupled.parts] == ["clip", "prox", "momentum", "weight_decay"]


def test_plain_settings_add_no_part() -> None:
    assert with_local(build_method("fedavg"), Local()).parts == ()
