"""The balanced sampler visits every class of a client equally often."""

from __future__ import annotations

import pytest
import torch
from federations import simulate, visit
from loss_hooks import built

from counterpoise.client.plan import make_plan
from counterpoise.core.local import Local
from counterpoise.core.messages import Broadcast, Task
from counterpoise.core.part import ClientData
from counterpoise.core.rng import generator
from counterpoise.engines.opening import open_task


def _balanced(labels: torch.Tensor) -> ClientData:
    part = built("balanced_sampler")
    assert part.prepare is not None
    data, _ = part.prepare(ClientData(torch.arange(len(labels)), labels), visit())
    return data


def test_chances_are_one_over_the_count_of_the_class() -> None:
    data = _balanced(torch.tensor([0, 0, 3, 3, 3, 1]))
    assert data.chances is not None
    assert data.chances.tolist() == pytest.approx([1 / 2, 1 / 2, 1 / 3, 1 / 3, 1 / 3, 1])


def test_every_present_class_is_visited_equally_often() -> None:
    labels = torch.tensor([0] * 900 + [1] * 90 + [3] * 10)
    plan = make_plan(_balanced(labels), 50, 20, "pad", generator(0, "plan"))
    visited = torch.bincount(labels[plan.positions[plan.mask]], minlength=4) / plan.mask.sum()
    # 20,000 draws: three standard deviations are 0.01.
    assert visited.tolist() == pytest.approx([1 / 3, 1 / 3, 0, 1 / 3], abs=0.01)


def test_an_epoch_is_as_long_as_without_the_sampler() -> None:
    plan = make_plan(_balanced(torch.tensor([0] * 9 + [1])), 4, 2, "pad", generator(0, "plan"))
    assert plan.mask.sum(1).tolist() == [4, 4, 2, 4, 4, 2]


def test_a_client_of_one_class_draws_all_its_samples_alike() -> None:
    plan = make_plan(_balanced(torch.full((40,), 2)), 40, 50, "pad", generator(0, "plan"))
    share = torch.bincount(plan.positions.flatten(), minlength=40) / 2000
    assert share.tolist() == pytest.approx([1 / 40] * 40, abs=0.015)


def test_losses_still_see_the_counts_before_the_sampling() -> None:
    sim = simulate(["fedavg", "balanced_sampler"], local=Local(batch_size=12))
    state = sim.open()
    opened = open_task(sim.work, Task(1), {}, Broadcast(0, 0.1, state.params, {}, {}))
    assert torch.equal(opened.stats.counts, sim.work.federation.counts()[1])
