"""BalanceFL: a client's round by plain autograd on the same batches and noise, its limits, and where its noise comes from."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest
import torch
import torch.nn.functional as F  # noqa: N812
from federations import (
    LOOP,
    STACKED,
    distance,
    fingerprint,
    run_rounds,
    simulate,
    small_model,
    unequal_federation,
)
from torch import Tensor, nn

from counterpoise.core.local import Local
from counterpoise.core.messages import Task
from counterpoise.core.part import Stats
from counterpoise.core.tree import Params, take
from counterpoise.engines.choose import EngineSettings
from counterpoise.engines.opening import open_task
from counterpoise.errors import ConfigError
from counterpoise.run.simulation import Simulation
from counterpoise.server.round import announce
from counterpoise.server.state import ServerState

OFF = {"inherit": 0.0, "entropy": 0.0, "noise": 0.0, "restrict": False}
ENGINES = {"loop": LOOP, "stacked": EngineSettings("stacked", "cpu", chunk=2)}
STRONG = {"inherit": 0.7, "temperature": 3.0, "entropy": 0.5, "noise": 1.5}


def seen_noise(sim: Simulation, state: ServerState, client: int) -> Stats:
    sent = announce(sim.method, state, sim.work.local.lr)
    return open_task(sim.work, Task(client), {}, sent).stats


def balance_loss(model: Any, teacher: Any, x: Tensor, y: Tensor, noise: Tensor) -> Tensor:
    """The published loss, class by class as its formula is written."""
    here = sorted(set(y.tolist()))
    gone = [c for c in range(4) if c not in here]
    features = model.features(x)
    logits, noisy = model.head(features), model.head(features + STRONG["noise"] * noise)
    total = F.cross_entropy(noisy[:, here], torch.tensor([here.index(c) for c in y.tolist()]))
    if gone:
        q = (teacher(x)[:, gone].detach() / STRONG["temperature"]).softmax(1)
        p = (logits[:, gone] / STRONG["temperature"]).log_softmax(1)
        total = total - STRONG["inherit"] * (q * p).sum(1).mean()
    chances = logits[:, here].softmax(1)
    return total + STRONG["entropy"] * (chances * chances.log()).sum(1).mean()


def train_plainly(sim: Simulation, state: ServerState, client: int, batch_size: int) -> Params:
    """A client's change by torch's own SGD, on the planned batches, with the planned noise."""
    sent, lr = announce(sim.method, state, sim.work.local.lr), sim.work.local.lr
    opened = open_task(sim.work, Task(client), {}, sent)
    model, teacher = (sim.work.model.load(state.params, {}) for _ in range(2))
    drawn, counts = opened.stats.seen["present_classes"], opened.stats.counts.double()
    optimizer = torch.optim.SGD(model.parameters(), lr=lr)
    visited = 0
    for positions, mask in zip(opened.plan.positions, opened.plan.mask, strict=True):
        rows, y = opened.data.rows[positions[mask]], opened.data.labels[positions[mask]]
        turns = range(visited, visited + len(y))
        visited += batch_size
        coins = torch.stack([drawn["coins"][turn % 997] for turn in turns])
        noise = torch.stack([drawn["noise"][turn % 500] for turn in turns])
        noise = noise * (coins < 1 - counts[y] / counts.max()).unsqueeze(1)
        optimizer.zero_grad()
        balance_loss(model, teacher, sim.work.federation.train.x[rows], y, noise).backward()
        optimizer.step()
    return {name: p.detach() - state.params[name] for name, p in model.named_parameters()}


@pytest.mark.parametrize("engine", ENGINES.values(), ids=ENGINES)
def test_a_round_is_that_of_the_published_loss_by_plain_autograd(engine: EngineSettings) -> None:
    local = Local(lr=0.1, batch_size=12, epochs=2)
    sim = simulate({"balancefl": STRONG}, engine=engine, local=local)
    state = run_rounds(sim, rounds=1)
    clients = [0, 1, 2, 4]  # with and without missing classes, and with one class alone
    sent = announce(sim.method, state, local.lr)
    replies = sim.engine.train([Task(client) for client in clients], sent)
    for row, client in enumerate(clients):
        expected = train_plainly(sim, state, client, 12)
        assert distance(take(replies.delta, row), expected) < 1e-10
        moved = max(float(d.abs().max()) for d in expected.values())
        assert (
            moved > 1e-3 if client != 4 else moved == 0
        )  # one class alone: nothing to tell apart, nothing forgotten


@pytest.mark.parametrize("engine", ENGINES.values(), ids=ENGINES)
def test_with_everything_off_it_is_fedavg_with_the_balanced_sampler(engine: EngineSettings) -> None:
    off, plain = (
        simulate(spec, engine=engine) for spec in ({"balancefl": OFF}, ["fedavg", "balanced_sampler"])
    )
    assert distance(run_rounds(off).params, run_rounds(plain).params) < 1e-12


@pytest.mark.parametrize("name", OFF)
def test_each_of_its_terms_does_something(name: str) -> None:
    whole, without = simulate("balancefl"), simulate({"balancefl": {name: OFF[name]}})
    assert distance(run_rounds(whole).params, run_rounds(without).params) > 1e-6


def test_noise_is_keyed_by_seed_round_and_client() -> None:
    sim, again, other = simulate("balancefl"), simulate("balancefl"), simulate("balancefl", seed=5)
    state = sim.open()
    first, same = (seen_noise(one, state, 0).seen["present_classes"] for one in (sim, again))
    assert all(torch.equal(first[name], same[name]) for name in first)
    for one, at, client in ((sim, state, 1), (sim, replace(state, round=1), 0), (other, state, 0)):
        assert not torch.equal(seen_noise(one, at, client).seen["present_classes"]["coins"], first["coins"])


def test_a_run_repeats_bit_for_bit_and_noise_is_not_kept() -> None:
    first, second = simulate("balancefl"), simulate("balancefl")
    assert fingerprint(first, run_rounds(first)) == fingerprint(second, run_rounds(second))
    assert first.engine.memory == {}


@pytest.mark.parametrize("norm", ["group", "batch"])
def test_engines_agree_on_convolutions(norm: str) -> None:
    shape = (2, 6, 6)
    states = []
    for engine in (LOOP, STACKED):
        model = small_model("resnet8", shape, norm=norm, width=2)
        sim = simulate(
            "balancefl", engine=engine, federation=unequal_federation(shape), model=model, rounds=1
        )
        states.append(run_rounds(sim).params)
    assert distance(*states) < 1e-8


class DeepHead(nn.Module):
    """A head that normalises over batches, drops features and then scores them."""

    def __init__(self) -> None:
        super().__init__()
        self.body = nn.Linear(5, 6)
        self.head = nn.Sequential(nn.BatchNorm1d(6), nn.Dropout(0.5), nn.Linear(6, 4))

    def features(self, x: Tensor) -> Tensor:
        return self.body(x).tanh()

    def forward(self, x: Tensor) -> Tensor:
        logits: Tensor = self.head(self.features(x))
        return logits


def test_a_head_applied_to_noisy_features_leaves_no_trace_and_draws_by_the_key() -> None:
    ends = []
    for seed, engine in enumerate([LOOP, LOOP, STACKED]):
        torch.manual_seed(seed)  # nothing may be drawn from torch's own stream
        sim = simulate("balancefl", model=DeepHead(), engine=engine)
        first = sim.open()
        sent = {name: b.clone() for name, b in first.buffers.items()}
        after, _ = sim.advance(first)
        assert distance(first.buffers, sent) == 0
        ends.append(run_rounds(sim, after, 2))
    assert distance(ends[0].to_tree(), ends[1].to_tree()) == 0
    assert distance(ends[0].to_tree(), ends[2].to_tree()) < 1e-8


def test_a_model_without_features_is_refused_unless_there_is_no_noise() -> None:
    plain = nn.Sequential(nn.Linear(5, 4), nn.Tanh())
    with pytest.raises(
        ConfigError, match="present_classes needs a model with `features` and `head`, not Sequential"
    ):
        simulate("balancefl", model=plain)
    run_rounds(simulate({"balancefl": {"noise": 0.0}}, model=plain, rounds=1))
