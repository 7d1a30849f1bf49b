"""FedSat's three rules together over three rounds, against plain code on full batches."""

from __future__ import annotations

from typing import Literal

import numpy as np
import pytest
import torch
from federations import LOOP, STACKED, ask_clients, distance, simulate
from judged import priority_weights_by_hand
from torch import Tensor

from counterpoise.core.local import Local
from counterpoise.core.messages import Replies
from counterpoise.core.method import MethodSpec
from counterpoise.core.part import Exchange
from counterpoise.core.tree import Params
from counterpoise.engines.choose import EngineSettings
from counterpoise.parts.prioritised_weighting import draw_workers
from counterpoise.run.simulation import Simulation

LR, STEPS, WORKERS, GAMMA = 0.1, 3, 3, 0.5
LOCAL = Local(lr=LR, batch_size=50, epochs=STEPS, batching="pad")  # every epoch is one batch
COHORTS = [(0, 1, 3), (1, 2, 3), (0, 2, 4)]
PAIRS = [(true, said) for true in range(4) for said in range(4) if true != said]


def _outputs(sim: Simulation, params: Params, rows: Tensor) -> Tensor:
    return torch.func.functional_call(sim.work.model.module, params, (sim.work.federation.train.x[rows],))


def _confusion(sim: Simulation, params: Params, rows: Tensor) -> np.ndarray:
    found = np.zeros((4, 4), dtype=int)
    labels = sim.work.federation.train.y[rows]
    for true, said in zip(labels.tolist(), _outputs(sim, params, rows).argmax(1).tolist(), strict=True):
        found[true, said] += 1
    return found


def _costs(confused: np.ndarray) -> np.ndarray:
    wrong = [confused[pair] for pair in PAIRS]
    costs = np.ones((4, 4))
    for pair in PAIRS:
        costs[pair] = 1 + (confused[pair] - min(wrong)) / max(max(wrong) - min(wrong), 1)
    return costs


def _trained(sim: Simulation, x: Params, correction: Params, client: int, online: bool) -> Params:
    federation = sim.work.federation
    rows, y = federation.clients[client], x
    labels, confused = federation.train.y[rows], _confusion(sim, x, federation.held_out[client])
    for _ in range(STEPS):
        leaves = {name: p.clone().requires_grad_() for name, p in y.items()}
        logits = _outputs(sim, leaves, rows)
        cost = torch.tensor([_costs(confused)[t, s] for t, s in zip(labels, logits.argmax(1), strict=True)])
        loss = (cost * torch.nn.functional.cross_entropy(logits, labels, reduction="none")).mean()
        grads = torch.autograd.grad(loss, list(leaves.values()))
        confused = confused + (_confusion(sim, y, rows) if online else 0)
        y = {n: p - LR * (g + correction[n]) for (n, p), g in zip(y.items(), grads, strict=True)}
    return y


def _weights(
    sim: Simulation, models: list[Params], cohort: tuple[int, ...], round: int, norm: str
) -> list[float]:
    """Who judges whom is the package's draw; what they count and what follows is worked out here."""
    ones = torch.ones(len(cohort))
    replies = Replies(torch.tensor(cohort), ones, {}, {}, {}, ones)
    asked = Exchange({}, replies, ones, 6, round=round, seed=sim.seed, part="prioritised_weighting")
    counts = np.zeros((len(cohort), 4, 4), dtype=int)
    for worker, place in draw_workers(asked, WORKERS):
        counts[place] += _confusion(sim, models[place], sim.work.federation.held_out[worker])
    return priority_weights_by_hand(counts, norm).tolist()


def _spec(norm: str, online: bool) -> MethodSpec:
    if online:
        return {"fedsat": {"gamma": GAMMA, "workers": WORKERS, "error_norm": norm}}
    judged = {"prioritised_weighting": {"workers": WORKERS, "error_norm": norm}}
    costs = {"prediction_sensitive": {"online": False}}
    return [{"fedavg": {"weighting": "uniform"}}, costs, {"drift_correction": {"gamma": GAMMA}}, judged]


@pytest.mark.parametrize("engine", [LOOP, STACKED], ids=["loop", "stacked"])
@pytest.mark.parametrize("online", [True, False])
@pytest.mark.parametrize("norm", ["client", "round"])
def test_three_rounds_follow_the_rules(
    norm: Literal["client", "round"], online: bool, engine: EngineSettings
) -> None:
    sim = simulate(_spec(norm, online), local=LOCAL, engine=engine)
    state = sim.open()
    x = before = state.params
    drift = {client: {name: torch.zeros_like(p) for name, p in x.items()} for client in range(6)}
    for number, cohort in enumerate(COHORTS):
        common = {n: (before[n] - x[n]) / (LR * STEPS) for n in x}
        models = []
        for client in cohort:
            correction = {n: GAMMA * (common[n] - drift[client][n]) for n in x}
            models.append(_trained(sim, x, correction, client, online))
            drift[client] = {
                n: drift[client][n] - common[n] + (x[n] - models[-1][n]) / (LR * STEPS) for n in x
            }
        theta = _weights(sim, models, cohort, number, norm)
        before, x = x, {n: sum(w * m[n] for w, m in zip(theta, models, strict=True)) for n in x}  # type: ignore[misc]
        state, _ = ask_clients(sim, state, cohort)
        assert distance(state.params, x) < 1e-12


@pytest.mark.parametrize(
    ("given", "warned"),
    [
        ({}, True),
        ({"reference": "stale"}, True),
        ({"reference": "control"}, False),
        ({"prioritised": False}, False),
    ],
)
def test_a_run_is_warned_where_steps_follow_what_few_clients_decide(
    given: dict[str, str | bool], warned: bool
) -> None:
    assert ("drift_correction" in simulate({"fedsat": given}).notes) == warned
