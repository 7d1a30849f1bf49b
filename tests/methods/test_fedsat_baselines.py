"""FedLADA, elastic aggregation, FedSpeed and FedSMOO over two rounds of unequal steps against plain code."""

from __future__ import annotations

from collections.abc import Callable

import pytest
import torch
import torch.nn.functional as F  # noqa: N812
from federations import (
    LOOP,
    STACKED,
    ask_clients,
    distance,
    planned_batches,
    run_rounds,
    simulate,
    unequal_federation,
)
from torch import Tensor

from counterpoise.core.local import Local
from counterpoise.core.part import Batch
from counterpoise.core.tree import Params
from counterpoise.engines.choose import EngineSettings
from counterpoise.parts.elastic import begins_within
from counterpoise.run.simulation import Simulation
from counterpoise.server.state import ServerState

LR = 0.05
LOCAL = Local(lr=LR, batch_size=12, epochs=2, batching="pad")
COHORT = (0, 2, 3)  # 2, 2 and 3 batches an epoch
ENGINES = pytest.mark.parametrize("engine", [LOOP, STACKED], ids=["loop", "stacked"])
Gradient = Callable[[Params], Params]


def _gradients(sim: Simulation, state: ServerState, client: int, squares: bool = False) -> list[Gradient]:
    """For each batch of the coming round that of the mean cross-entropy, or of the mean squared length of the outputs, by autograd."""

    def of(rows: Tensor, y: Tensor) -> Gradient:
        def at(params: Params) -> Params:
            leaves = {n: p.detach().clone().requires_grad_() for n, p in params.items()}
            z = torch.func.functional_call(
                sim.work.model.module, leaves, (sim.work.federation.train.x[rows],)
            )
            value = z.square().sum(1).mean() if squares else F.cross_entropy(z, y)
            return dict(zip(leaves, torch.autograd.grad(value, list(leaves.values())), strict=True))

        return at

    return [of(rows, y) for rows, y in planned_batches(sim, state, client)]


def _run(spec: object, engine: EngineSettings) -> tuple[Simulation, list[ServerState]]:
    sim = simulate(spec, local=LOCAL, engine=engine)  # type: ignore[arg-type]
    states = [sim.open()]
    for _ in range(2):
        states.append(ask_clients(sim, states[-1], COHORT)[0])
    return sim, states


def _flat(tree: Params) -> Tensor:
    return torch.cat([leaf.flatten() for leaf in tree.values()])


def _like(flat: Tensor, tree: Params) -> Params:
    pieces = torch.split(flat, [leaf.numel() for leaf in tree.values()])
    return {n: piece.view(leaf.shape) for (n, leaf), piece in zip(tree.items(), pieces, strict=True)}


@ENGINES
def test_fedlada_follows_its_algorithm(engine: EngineSettings) -> None:
    sim, states = _run({"fedlada": {"alpha": 0.3, "beta1": 0.8, "beta2": 0.9, "eps": 0.05}}, engine)
    template = states[0].params
    x = _flat(template)
    v, direction = torch.full_like(x, 0.05**2), torch.zeros_like(x)
    for state in states[:2]:
        ends, largest, directions = [], [], []
        for client in COHORT:
            gradients, y, m, v_k, v_max = _gradients(sim, state, client), x, torch.zeros_like(x), v, v
            for gradient in gradients:
                g = _flat(gradient(_like(y, template)))
                m, v_k = 0.8 * m + 0.2 * g, 0.9 * v_k + 0.1 * g**2
                v_max = torch.maximum(v_max, v_k)
                y = y - LR * (0.3 * m / v_max.sqrt() + 0.7 * direction)
            ends.append(y)
            largest.append(v_max)
            directions.append((x - y) / (LR * len(gradients)))
        v, direction = sum(largest) / 3, sum(directions) / 3  # type: ignore[assignment]
        x = sum(ends) / 3  # type: ignore[assignment]
    assert float((_flat(states[2].params) - x).abs().max()) < 1e-10


def test_fedlada_takes_no_step_where_there_is_no_gradient_however_small_eps_is() -> None:
    federation = unequal_federation()
    federation.train.x[:, 0] = 0.0
    sim = simulate({"fedlada": {"eps": 1e-25}}, federation=federation, dtype=torch.float32)
    first = next(iter(sim.open().params.values()))
    found = next(iter(run_rounds(sim).params.values()))
    assert torch.equal(found[:, 0], first[:, 0])
    assert not torch.equal(found, first)


@ENGINES
def test_fedsmoo_follows_its_algorithm(engine: EngineSettings) -> None:
    sim, states = _run({"fedsmoo": {"rho": 0.2, "alpha": 0.3}}, engine)
    template = states[0].params
    x = _flat(template)
    shared, total = torch.zeros_like(x), torch.zeros_like(x)
    dual, drift = {k: torch.zeros_like(x) for k in COHORT}, {k: torch.zeros_like(x) for k in COHORT}
    for state in states[:2]:
        ends = {}
        for client in COHORT:
            y = x
            for gradient in _gradients(sim, state, client):
                ahead = _flat(gradient(_like(y, template))) - dual[client] - shared
                e = 0.2 * ahead / (ahead.norm() + 1e-7)
                dual[client] = dual[client] + e - shared
                y = y - LR * (_flat(gradient(_like(y + e, template))) + 0.3 * (y - x + drift[client]))
            ends[client] = y
        mean = sum(dual.values()) / 3
        shared = 0.2 * mean / (mean.norm() + 1e-7)  # type: ignore[union-attr]
        for client, y in ends.items():
            drift[client] = drift[client] + y - x
        total = sum(drift.values()) / 6  # type: ignore[assignment]
        x = sum(ends.values()) / 3 + total  # type: ignore[assignment]
    assert float((_flat(states[2].params) - x).abs().max()) < 1e-10


def test_fedsmoo_without_a_perturbation_and_fedspeed_are_feddyn() -> None:
    expected = run_rounds(simulate({"feddyn": {"alpha": 0.2}})).params
    for name in ("fedsmoo", "fedspeed"):
        found = run_rounds(simulate({name: {"rho": 0.0, "alpha": 0.2}})).params
        assert distance(found, expected) < 1e-12


def test_fedspeed_without_a_regulariser_is_fedsam_but_for_the_mean_of_past_updates() -> None:
    spec = {"fedspeed": {"rho": 0.3, "alpha": 0.0}}
    uniform = {"fedsam": {"rho": 0.3, "weighting": "uniform"}}
    sims = [simulate(one, cohort=None, rounds=1) for one in (spec, uniform)]
    (speed, first), (sam, _) = ((run_rounds(sim), sim.open()) for sim in sims)
    for name, p in speed.params.items():  # FedDyn adds the mean over all clients of their updates
        assert torch.allclose(p - first.params[name], 2 * (sam.params[name] - first.params[name]), atol=1e-12)


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
@pytest.mark.parametrize("epochs", [1, 2, 3, 5, 10])
@pytest.mark.parametrize("percent", [10, 30, 70, 100])
def test_elastic_aggregation_counts_the_batches_that_begin_within_its_share_of_an_epoch(
    percent: int, epochs: int, dtype: torch.dtype
) -> None:
    for each in range(1, 401):  # batches of an epoch
        steps = torch.tensor(each * epochs, dtype=dtype)
        every = Batch(*[torch.zeros(0)] * 3, passed=(torch.arange(each * epochs) / steps).to(dtype))
        found = begins_within(every, steps, torch.tensor(epochs, dtype=dtype), percent / 100)
        expected = -(-percent * each // 100)  # 30 % of 10 batches are 3, of 11 they are 4
        assert found.tolist() == [True] * expected + [False] * (each * epochs - expected), each


@ENGINES
def test_elastic_aggregation_follows_its_rule(engine: EngineSettings) -> None:
    sim, states = _run({"elastic": {"tau": 0.4, "decay": 0.9}}, engine)
    template = states[0].params
    sizes = sim.work.federation.samples()[list(COHORT)].double()
    shares = sizes / sizes.sum()
    x = _flat(template)
    for state in states[:2]:
        deltas, sensitivities = [], []
        for client in COHORT:
            y = x
            for gradient in _gradients(sim, state, client):
                y = y - LR * _flat(gradient(_like(y, template)))
            deltas.append(y - x)
            # Of two or three batches an epoch only the first one begins within 0.3 epochs.
            first = _gradients(sim, state, client, squares=True)[0]
            sensitivities.append(0.1 * _flat(first(_like(x, template))).abs())
        omega = torch.stack(sensitivities)
        mean, most = (shares[:, None] * omega).sum(0), omega.amax(0)
        zeta = 1.4 - torch.where(most > 0, mean / most.clamp(min=1e-300), 0.0)
        x = x + zeta * (shares[:, None] * torch.stack(deltas)).sum(0)
    assert float((_flat(states[2].params) - x).abs().max()) < 1e-10
