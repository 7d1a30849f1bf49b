"""CLIMB: duals by hand, who gets which factor, what is known with part of the clients, and its limits."""

from __future__ import annotations

import pytest
import torch
import torch.nn.functional as F  # noqa: N812
from federations import altered, ask_clients, distance, run_rounds, simulate, unequal_federation
from hypothesis import given
from hypothesis import strategies as st

from counterpoise.core.codec import digest
from counterpoise.core.messages import Replies
from counterpoise.core.method import PARTS, build_method
from counterpoise.errors import ConfigError
from counterpoise.parts.duals import KNOB, loss_factors
from counterpoise.run.simulation import Simulation
from counterpoise.server.state import ServerState


def _losses(sim: Simulation, state: ServerState) -> list[float]:
    """Cross-entropy of a model on each client's training samples, by torch's own module."""
    module, federation = sim.work.model.load(state.params, state.buffers), sim.work.federation
    return [
        float(F.cross_entropy(module(federation.train.x[rows]), federation.train.y[rows]).detach())
        for rows in federation.clients
    ]


def test_factors_by_hand() -> None:
    # Mean 1: 1 + 0 - 1, 1 + 3 - 1, 1 + 0.5 - 1, and 1 - 0.5 - ... all of them at least 0.
    assert loss_factors(torch.tensor([0.0, 3.0, 0.5, 0.5])).tolist() == [0.0, 3.0, 0.5, 0.5]
    assert loss_factors(torch.tensor([0.0, 0.0, 9.0])).tolist() == [0.0, 0.0, 7.0]  # 1 - 3 is clipped
    assert loss_factors(torch.zeros(3)).tolist() == [1.0, 1.0, 1.0]


@given(st.lists(st.floats(0, 100), min_size=1, max_size=20))
def test_factors_are_never_negative_and_their_mean_is_1_where_none_is_clipped(duals: list[float]) -> None:
    factors = loss_factors(torch.tensor(duals, dtype=torch.float64))
    assert float(factors.min()) >= 0
    if max(duals) - min(duals) < 1:
        assert float(factors.mean()) == pytest.approx(1)


def test_a_step_of_the_duals_takes_the_losses_of_the_model_that_was_sent() -> None:
    sim = simulate({"climb": {"lr": 12.0, "eps": 0.01, "every": 2}}, cohort=None)
    first = run_rounds(sim, rounds=1)
    assert first.slots["loss_duals"]["duals"].tolist() == [0.0] * 6
    losses = _losses(sim, first)
    second = run_rounds(sim, first, 1)
    mean = sum(losses) / 6
    expected = [max(0.0, 12.0 * (loss - mean - 0.01) / 6) for loss in losses]
    assert second.slots["loss_duals"]["duals"].tolist() == pytest.approx(expected, abs=1e-9)
    assert max(expected) > 0


def test_a_dual_ends_at_its_bound() -> None:
    sim = simulate({"climb": {"lr": 1e6, "eps": 0.0, "every": 1, "most": 3.0}}, cohort=None)
    duals = run_rounds(sim, rounds=1).slots["loss_duals"]["duals"]
    assert set(duals.tolist()) == {0.0, 3.0}


def test_clients_that_do_not_answer_keep_their_duals_and_the_mean_is_over_those_that_do() -> None:
    sim = simulate({"climb": {"lr": 6.0, "eps": 0.0, "every": 1}}, cohort=None)
    first = run_rounds(sim, rounds=1)
    before, losses = first.slots["loss_duals"]["duals"].tolist(), _losses(sim, first)
    after, _ = ask_clients(sim, first, [1, 4])
    mean = (losses[1] + losses[4]) / 2
    expected = [max(0.0, d + losses[k] - mean) if k in (1, 4) else d for k, d in enumerate(before)]
    assert after.slots["loss_duals"]["duals"].tolist() == pytest.approx(expected, abs=1e-9)


def test_a_client_without_samples_has_no_loss_to_count() -> None:
    federation = unequal_federation(sizes=(20, 50, 13, 30, 7, 0))
    sim = simulate({"climb": {"lr": 6.0, "eps": 0.0, "every": 1}}, federation=federation, cohort=None)
    alone, _ = ask_clients(sim, sim.open(), [0, 1, 3])
    beside, _ = ask_clients(sim, sim.open(), [0, 1, 3, 5])
    duals = beside.slots["loss_duals"]["duals"].tolist()
    assert duals == alone.slots["loss_duals"]["duals"].tolist()
    assert duals[5] == 0 < max(duals)


def test_a_client_trains_with_its_factor_times_the_loss() -> None:
    """With plain steps a factor on the loss is a factor on the learning rate: one batch, one step."""
    seen: list[Replies] = []

    def note(replies: Replies) -> Replies:
        seen.append(replies)
        return replies

    sim = simulate({"climb": {"every": 1000}}, cohort=None)
    state = sim.open()
    state.slots["loss_duals"]["duals"][:] = torch.tensor([2.0, 0, 0, 0, 0.4, 0])
    plain = simulate({"fedavg": {"weighting": "uniform"}}, cohort=None)
    for one, at in ((sim, state), (plain, plain.open())):
        ask_clients(altered(one, note), at, [4, 5])  # clients of a single batch
    priced, free = (replies.delta["head.bias"] for replies in seen)
    assert torch.allclose(priced[0], (1 + 0.4 - 0.4) * free[0], atol=1e-12)
    assert torch.allclose(priced[1], (1 + 0.0 - 0.4) * free[1], atol=1e-12)


def test_without_a_step_it_is_fedavg_bit_for_bit() -> None:
    plain, idle = simulate({"fedavg": {"weighting": "uniform"}}), simulate({"climb": {"every": 4}})
    assert digest(run_rounds(plain).params) == digest(run_rounds(idle).params)


def test_equal_clients_stay_free() -> None:
    sim = simulate({"climb": {"lr": 100.0, "eps": 0.0, "every": 1}}, cohort=1)
    assert run_rounds(sim).slots["loss_duals"]["duals"].tolist() == [0.0] * 6  # alone, each is the mean


def test_losses_are_of_new_labels_where_relabel_comes_first() -> None:
    with pytest.raises(ConfigError, match="list relabel before loss_duals"):
        build_method(["climb", "relabel"])
    options = {"relabel": {"at": 1, "tau": 60.0}}, {"climb": {"every": 1, "eps": 0.0, "lr": 10.0}}
    sim = simulate(list(options), cohort=None)
    first = run_rounds(sim, rounds=1)
    before = first.slots["loss_duals"]["duals"]
    second = run_rounds(sim, first, 1)
    module, federation = sim.work.model.load(first.params, {}), sim.work.federation
    losses = [
        float(
            F.cross_entropy(
                module(federation.train.x[federation.clients[k]]), own["relabel"]["labels"]
            ).detach()
        )
        for k, own in sorted(sim.engine.memory.items())
    ]
    mean = sum(losses) / 6
    expected = [max(0.0, float(d) + 10 * (f - mean) / 6) for d, f in zip(before, losses, strict=True)]
    assert second.slots["loss_duals"]["duals"].tolist() == pytest.approx(expected, abs=1e-9)
    assert losses != pytest.approx(_losses(sim, first))


def test_the_factor_travels_as_a_setting_of_the_task() -> None:
    part = PARTS.build("loss_duals")
    assert part.propose is not None
    tasks = part.propose({"duals": torch.tensor([1.0, 0.0, 0.5])}, 0, [2, 0])
    assert [(task.client, dict(task.knobs)) for task in tasks] == [(2, {KNOB: 1.0}), (0, {KNOB: 1.5})]


def test_a_price_changes_the_run() -> None:
    plain = simulate({"fedavg": {"weighting": "uniform"}}, cohort=None)
    priced = simulate({"climb": {"every": 1, "eps": 0.0, "lr": 6.0}}, cohort=None)
    assert distance(run_rounds(plain).params, run_rounds(priced).params) > 1e-6
