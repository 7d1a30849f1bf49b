"""Fed-GraB: gradients by the logits carry the factors of the controllers, which only rare classes have."""

from __future__ import annotations

import math
from dataclasses import replace
from typing import Any

import numpy as np
import pytest
import torch
from federations import ask_clients, distance, run_rounds, simulate, unequal_federation
from hypothesis import given, settings
from hypothesis import strategies as st
from torch import Tensor, nn

from counterpoise.core.local import Local
from counterpoise.core.method import build_method, compose
from counterpoise.core.part import Batch, Outputs, Part
from counterpoise.core.rng import generator
from counterpoise.core.tree import Tree
from counterpoise.errors import ConfigError
from counterpoise.parts.gradient_balancer import Gains, control, factors, prior_shares, tail_of
from counterpoise.run.simulation import Simulation
from counterpoise.server.state import ServerState

GAPS = st.lists(st.floats(-5, 5), min_size=1, max_size=12)
NORMS = st.lists(st.floats(0.01, 100), min_size=2, max_size=12)


def test_factors_by_hand() -> None:
    """f(0) = 1; at 2 ln 9 the exponential is 1/9, so f = (10/9) / (2/9) = 5; at -2 ln 9 it is 9, so f = 10 / 82."""
    output = torch.tensor([0.0, 2 * math.log(9), -2 * math.log(9)], dtype=torch.float64)
    found = factors(output, torch.tensor([[1.0, 1.0, 1.0], [0.0, 0.0, 0.0]]))
    assert found[0].tolist() == pytest.approx([1, 5, 10 / 82])
    assert found[1].tolist() == pytest.approx([1, 10 / 82, 5])
    assert factors(1e6 * output.float(), torch.ones(1, 3)).tolist() == [[1, 10, 0]]


@settings(deadline=None, max_examples=60)
@given(GAPS, st.floats(0, 20), st.floats(0, 1), st.floats(0, 1))
def test_the_increments_of_a_controller_add_up_to_the_positional_one(
    gaps: list[float], p: float, i: float, d: float
) -> None:
    """``u = p e + i sum e + d (e - e before)``, ``e = -gap``."""
    state = {name: torch.zeros(1, dtype=torch.float64) for name in ("error", "before", "output")}
    for gap in gaps:
        now = torch.tensor([gap], dtype=torch.float64)
        state = control(state | {"gap": now, "on": torch.ones(1)}, Gains(p, i, d))
    errors = [0.0, *(-gap for gap in gaps)]
    wanted = p * errors[-1] + i * sum(errors) + d * (errors[-1] - errors[-2])
    assert float(state["output"]) == pytest.approx(wanted, abs=1e-9)


def test_a_controller_that_is_switched_off_forgets_and_begins_anew() -> None:
    one = torch.ones(1, dtype=torch.float64)
    used = {"gap": -one, "error": 3 * one, "before": 2 * one, "output": 7 * one}
    off = control(used | {"on": 0 * one}, Gains(1, 1, 1))
    assert {name: float(value) for name, value in off.items()} == {"output": 0, "error": 0, "before": 0}
    assert float(control({"gap": -one, "on": one} | off, Gains(10, 0.01, 0.1))["output"]) == pytest.approx(
        10.11
    )


def test_shares_and_tail_by_hand() -> None:
    """Rows of lengths 5, 3 and 1 are 4, 2 and 0 above the shortest."""
    weight = torch.tensor([[3.0, 4.0], [0.0, 3.0], [1.0, 0.0]], dtype=torch.float64)
    assert prior_shares(weight).tolist() == pytest.approx([4 / 6, 2 / 6, 0])
    assert tail_of(prior_shares(weight)).tolist() == [False, False, True]
    # 60 + 20 reach 75 %, the next 10 and 6 reach 95 %: head of two, medium of two
    assert tail_of(torch.tensor([20.0, 60.0, 4.0, 10.0, 6.0])).tolist() == [False, False, True, False, False]
    assert tail_of(torch.zeros(3)).tolist() == [False, False, False]
    assert prior_shares(torch.ones(4, 2)).tolist() == [0.25] * 4


@settings(deadline=None, max_examples=60)
@given(NORMS)
def test_shares_are_those_of_standardised_norms_and_the_tail_holds_the_smallest(norms: list[float]) -> None:
    lengths = np.array(norms)
    if lengths.std() < 1e-3:
        return
    standard = (lengths - lengths.mean()) / lengths.std()
    found = prior_shares(torch.diag(torch.tensor(norms, dtype=torch.float64)))
    assert np.allclose(found, (standard - standard.min()) / (standard - standard.min()).sum(), atol=1e-9)
    tail = tail_of(found)
    rest = found[~tail]
    assert float(found[tail].sum()) <= 0.05 + 1e-6
    assert not tail.any() or float(found[tail].max()) <= float(rest.min()) + 1e-8


class Replay:
    """One client after another by autograd with a hook on the logits, one scalar controller for each class."""

    def __init__(self, sim: Simulation, gains: tuple[float, float, float], everything: bool) -> None:
        self.sim, self.gains, self.everything = sim, gains, everything
        self.kept: dict[int, list[dict[str, float]]] = {}
        self.sizes = np.zeros(4)
        self.used: set[int] = set()

    def tail(self) -> set[int]:
        if self.everything:
            return set(range(4))
        order, reached, tail = np.argsort(-self.sizes, kind="stable"), 0.0, set()
        for c in order:
            if self.sizes.sum() and reached >= 0.95 * self.sizes.sum():
                tail.add(int(c))
            reached += self.sizes[c]
        return tail

    def outputs(self, states: list[dict[str, float]], tail: set[int]) -> list[float]:
        for c, own in enumerate(states):
            error = -own["positive"] + own["negative"] if c in tail else 0.0
            last, before = (own["last"], own["before"]) if c in tail else (0.0, 0.0)
            p, i, d = self.gains
            step = p * (error - last) + i * error + d * (error - 2 * last + before)
            own |= {"out": own["out"] + step if c in tail else 0.0, "before": last, "last": error}
        self.used |= {c for c, own in enumerate(states) if own["out"]}
        return [own["out"] for own in states]

    def train(self, module: nn.Module, client: int, round: int, lr: float, size: int) -> None:
        rows = self.sim.work.federation.clients[client]
        x, y = self.sim.work.federation.train.x[rows], self.sim.work.federation.train.y[rows]
        zero = {"positive": 0.0, "negative": 0.0, "last": 0.0, "before": 0.0, "out": 0.0}
        states = self.kept.setdefault(client, [dict(zero) for _ in range(4)])
        order = torch.randperm(len(y), generator=generator(self.sim.seed, "plan", round, client))
        for places in torch.split(order, size):
            self.step(module, x[places], y[places], states, lr)

    def step(self, module: nn.Module, x: Tensor, y: Tensor, states: list[Any], lr: float) -> None:
        out = torch.tensor(self.outputs(states, self.tail()), dtype=torch.float64)
        hit = torch.eye(4, dtype=torch.float64)[y]
        up, down = (10 / 9) / (1 / 9 + (-out / 2).exp()), (10 / 9) / (1 / 9 + (out / 2).exp())
        logits, seen = module(x), []
        logits.register_hook(lambda g: seen.append(g * torch.where(hit > 0, up, down)) or seen[0])
        loss = nn.functional.binary_cross_entropy_with_logits(logits, hit, reduction="sum") / len(y)
        grads = torch.autograd.grad(loss, list(module.parameters()))
        for parameter, slope in zip(module.parameters(), grads, strict=True):
            parameter.data -= lr * slope
        for c, own in enumerate(states):
            own["positive"] += float((seen[0][:, c].abs() * hit[:, c]).sum())
            own["negative"] += float((seen[0][:, c].abs() * (1 - hit[:, c])).sum())


def assert_replayed(sim: Simulation, replay: Replay, rounds: int) -> ServerState:
    state, clients = sim.open(), (0, 2)
    for turn in range(rounds):
        models = [replace(sim).module(state) for _ in clients]
        for module, client in zip(models, clients, strict=True):
            replay.train(module, client, turn, 0.1, 12)
        state, _ = ask_clients(sim, state, clients)
        for name, parameter in state.params.items():
            mean = sum(n * m.get_parameter(name) for n, m in zip((20, 13), models, strict=True)) / 33
            assert torch.allclose(parameter, mean, atol=1e-11), (turn, name)
        norms = state.params["head.weight"].norm(dim=1).numpy()
        replay.sizes += (norms - norms.min()) / (norms - norms.min()).sum()
    return state


@pytest.mark.parametrize("controlled", ["all", "tail"])
def test_rounds_are_those_of_a_hook_on_the_logits_and_scalar_controllers(controlled: str) -> None:
    sim = simulate({"fedgrab": {"controlled": controlled}}, rounds=4)
    replay = Replay(sim, (10, 0.01, 0.1), controlled == "all")
    assert_replayed(sim, replay, 4)
    assert 0 < len(replay.used) <= 4
    assert (replay.used == {0, 1, 2, 3}) == (controlled == "all")


def bce() -> Part:
    def loss(outputs: Outputs, batch: Batch, slot: Tree) -> Tensor:
        hit = torch.nn.functional.one_hot(batch.y, 4).to(outputs.logits)
        return nn.functional.binary_cross_entropy_with_logits(outputs.logits, hit, reduction="none").sum(-1)

    return Part("bce", loss=loss)


@pytest.mark.parametrize("controlled", ["all", "tail"])
def test_without_gains_it_is_fedavg_on_the_binary_cross_entropies(controlled: str) -> None:
    off = simulate({"fedgrab": {"kp": 0.0, "ki": 0.0, "kd": 0.0, "controlled": controlled}})
    plain = simulate(compose(build_method("fedavg"), bce()))
    assert distance(run_rounds(off).params, run_rounds(plain).params) < 1e-14


def test_the_first_round_knows_no_tail_and_is_plain() -> None:
    on, plain = simulate("fedgrab"), simulate(compose(build_method("fedavg"), bce()))
    first, same = run_rounds(on, rounds=1), run_rounds(plain, rounds=1)
    assert distance(first.params, same.params) < 1e-14
    assert distance(run_rounds(on, first, 2).params, run_rounds(plain, same, 2).params) > 1e-4


def test_a_controlled_class_that_a_client_lacks_is_pushed_down_less() -> None:
    """Client 4 has class 2 alone: all other logits only ever get negative gradients."""
    local = Local(lr=0.5, batch_size=4, epochs=5)
    found = []
    for gain in (0.0, 10.0):
        sim = simulate({"fedgrab": {"kp": gain, "ki": 0.0, "kd": 0.0, "controlled": "all"}}, local=local)
        state, _ = ask_clients(sim, sim.open(), [4])
        found.append(sim.module(state)(unequal_federation().test.x).detach()[:, [0, 1, 3]].mean())
    assert found[1] > found[0]


def test_a_model_without_a_linear_head_is_refused_only_where_its_rows_are_measured() -> None:
    body = nn.Sequential(nn.Linear(5, 4), nn.Tanh())
    simulate({"fedgrab": {"controlled": "all"}}, model=body).close()
    with pytest.raises(ConfigError, match="linear layer `head`"):
        simulate("fedgrab", model=body)
