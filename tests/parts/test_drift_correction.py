"""FedSat's drift correction: its relation to SCAFFOLD, and three rounds by hand."""

from __future__ import annotations

import pytest
import torch
from federations import SIZES, ask_clients, distance, run_rounds, simulate, unequal_federation
from torch import Tensor

from counterpoise.core.local import Local
from counterpoise.core.method import MethodSpec, build_method, compose
from counterpoise.core.part import Exchange, Part
from counterpoise.core.tree import Params, Tree

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


def _delta(params: Params, client: int, correction: Params, local: Local) -> tuple[Params, int]:
    """One client's delta with a fixed correction, by plain code on full batches."""
    federation = unequal_federation()
    sim = simulate("fedavg", federation=federation, local=local)
    rows, module = federation.clients[client], sim.work.model.module
    x, y, now = federation.train.x[rows], federation.train.y[rows], dict(params)
    for _ in range(local.epochs):
        leaves = {n: p.clone().requires_grad_() for n, p in now.items()}
        loss = torch.nn.functional.cross_entropy(torch.func.functional_call(module, leaves, (x,)), y)
        grads = torch.autograd.grad(loss, list(leaves.values()))
        now = {n: p - local.lr * (g + correction[n]) for (n, p), g in zip(now.items(), grads, strict=True)}
    return {n: now[n] - params[n] for n in params}, local.epochs


@pytest.mark.parametrize("reference", ["displacement", "stale"])
@pytest.mark.parametrize("gamma", [0.5, 1.0])
def test_three_rounds_of_partial_participation_follow_the_rule(reference: str, gamma: float) -> None:
    local = Local(lr=0.1, batch_size=50, epochs=3, batching="pad")
    spec = [
        {"fedavg": {"weighting": "uniform"}},
        {"drift_correction": {"gamma": gamma, "reference": reference}},
    ]
    sim = simulate(spec, local=local)
    state = sim.open()
    x = before = state.params
    zero = {n: torch.zeros_like(p) for n, p in x.items()}
    drift = dict.fromkeys(range(6), zero)
    seen: dict[int, Params] = {}
    for cohort in [(0, 2), (2, 3), (0, 3)]:
        deltas = {}
        for k in cohort:
            last = seen.get(k, x) if reference == "stale" else before
            common = {n: (last[n] - x[n]) / (0.1 * 3) for n in x}
            correction = {n: gamma * (common[n] - drift[k][n]) for n in x}
            deltas[k], steps = _delta(x, k, correction, local)
            drift[k] = {n: drift[k][n] - common[n] - deltas[k][n] / (0.1 * steps) for n in x}
            seen[k] = x
        before, x = x, {n: p + sum(d[n] for d in deltas.values()) / 2 for n, p in x.items()}
        state, _ = ask_clients(sim, state, cohort)
        assert distance(state.params, x) < 1e-9


def test_the_displacement_includes_the_servers_own_rate() -> None:
    spec = [{"fedavg": {"weighting": "uniform"}}, "drift_correction", {"server_step": {"lr": 0.5}}]
    sim = simulate(spec, cohort=None, local=LOCAL, federation=unequal_federation(sizes=EQUAL))
    first = sim.open()
    state, _ = sim.advance(first)
    slot = state.slots["drift_correction"]
    assert distance(slot["before"], first.params) == 0  # clients subtract the model that they receive
    assert float(slot["travelled"]) == pytest.approx(0.1 * 2)


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
