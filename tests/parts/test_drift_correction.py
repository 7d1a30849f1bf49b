"""FedSat's drift correction: its relation to SCAFFOLD, and rounds by plain code."""

from __future__ import annotations

import pytest
import torch
from federations import (
    SIZES,
    ask_clients,
    distance,
    planned_batches,
    run_rounds,
    simulate,
    unequal_federation,
)
from torch import Tensor

from counterpoise.core.local import Local
from counterpoise.core.method import MethodSpec, build_method, compose
from counterpoise.core.part import Exchange, Part
from counterpoise.core.tree import Params, Tree
from counterpoise.run.simulation import Simulation
from counterpoise.server.state import ServerState

EQUAL = (24,) * 6
LOCAL = Local(lr=0.1, batch_size=12)


@pytest.mark.parametrize("reference", ["displacement", "control", "stale"])
def test_with_all_clients_equal_steps_and_uniform_weights_it_is_scaffold(reference: str) -> None:
    federation = unequal_federation(sizes=EQUAL)
    spec = [{"fedavg": {"weighting": "uniform"}}, {"drift_correction": {"reference": reference}}]
    found = simulate(spec, federation=federation, cohort=None, rounds=5, local=LOCAL)
    scaffold = simulate("scaffold", federation=federation, cohort=None, rounds=5, local=LOCAL)
    assert distance(run_rounds(found).params, run_rounds(scaffold).params) < 1e-12


def test_as_a_control_variate_it_is_scaffold_with_any_cohort_and_sizes() -> None:
    spec = [{"fedavg": {"weighting": "uniform"}}, {"drift_correction": {"reference": "control"}}]
    assert len(set(SIZES)) > 1
    assert distance(run_rounds(simulate(spec)).params, run_rounds(simulate("scaffold")).params) < 1e-12


def _ends(
    sim: Simulation, state: ServerState, client: int, correction: Params, lr: float
) -> tuple[Params, int]:
    """A client's model after its planned batches with a fixed correction, by plain code, and how many they were."""
    module, now = sim.work.model.module, dict(state.params)
    batches = planned_batches(sim, state, client)
    for rows, y in batches:
        leaves = {n: p.clone().requires_grad_() for n, p in now.items()}
        z = torch.func.functional_call(module, leaves, (sim.work.federation.train.x[rows],))
        grads = torch.autograd.grad(torch.nn.functional.cross_entropy(z, y), list(leaves.values()))
        now = {n: p - lr * (g + correction[n]) for (n, p), g in zip(now.items(), grads, strict=True)}
    return now, len(batches)


@pytest.mark.parametrize("reference", ["displacement", "stale"])
@pytest.mark.parametrize("gamma", [0.5, 1.0])
def test_rounds_follow_the_rule_with_unequal_steps_a_falling_rate_and_the_servers_own(
    reference: str, gamma: float
) -> None:
    """v is the true displacement over the rate and the mean steps of the round that made it."""
    spec = [
        {"fedavg": {"weighting": "uniform"}},
        {"drift_correction": {"gamma": gamma, "reference": reference}},
        {"server_step": {"lr": 0.7}},
    ]
    local = Local(lr=0.1, batch_size=12, schedule={"factor": {"by": 0.5}}, batching="pad")
    sim = simulate(spec, local=local)
    state = sim.open()
    x, zero = state.params, {n: torch.zeros_like(p) for n, p in state.params.items()}
    drift, last = dict.fromkeys(range(6), zero), (x, 1.0)
    seen: dict[int, tuple[Params, float]] = {}
    for number, cohort in enumerate([(0, 1), (1, 2), (0, 1), (2, 3)]):  # of 2, 5, 2 and 3 batches
        lr, ends, steps = 0.1 * 0.5**number, {}, {}
        for k in cohort:
            before, travelled = seen.get(k, (x, 1.0)) if reference == "stale" else last
            common = {n: (before[n] - x[n]) / travelled for n in x}
            correction = {n: gamma * (common[n] - drift[k][n]) for n in x}
            ends[k], steps[k] = _ends(sim, state, k, correction, lr)
            drift[k] = {n: drift[k][n] - common[n] + (x[n] - ends[k][n]) / (lr * steps[k]) for n in x}
            seen[k] = x, lr * steps[k]
        last = x, lr * sum(steps.values()) / 2
        x = {n: p + 0.7 * sum(y[n] - p for y in ends.values()) / 2 for n, p in x.items()}
        state, _ = ask_clients(sim, state, cohort)
        assert distance(state.params, x) < 1e-12
    assert sorted(steps.values()) == [2, 3]


def _given(weights: Tensor, slot: Tree, exchange: Exchange) -> tuple[Tensor, Tree]:
    """Weights that the test decides: client k counts k + 1 times."""
    found = (exchange.replies.client + 1).to(weights)
    return found / found.sum(), slot


def test_without_correction_and_costs_it_is_fedavg_with_the_given_weights() -> None:
    off: MethodSpec = [
        "fedavg",
        {"drift_correction": {"gamma": 0.0}},
        {"prediction_sensitive": {"lowest": 1.0, "highest": 1.0}},
    ]
    sims = [simulate(compose(build_method(spec), Part("given", weigh=_given))) for spec in (off, "fedavg")]
    found, expected = map(run_rounds, sims)
    assert distance(found.params, expected.params) < 1e-12
    first = sims[0].open()
    state, _ = ask_clients(sims[0], first, [0, 1, 3])
    models = [ask_clients(simulate("fedavg"), first, [client])[0].params for client in (0, 1, 3)]
    for name, leaf in state.params.items():
        by_hand = (models[0][name] + 2 * models[1][name] + 4 * models[2][name]) / 7
        assert torch.allclose(leaf, by_hand, atol=1e-12)
