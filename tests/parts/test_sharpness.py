"""SAM: its gradient comes from uphill, its running statistics and its loss from where the model stands."""

from __future__ import annotations

import pytest
from federations import ask_clients, distance, simulate, small_model

from counterpoise.core.local import Local
from counterpoise.server.state import Outcome, ServerState


def _one_step(rho: float) -> tuple[ServerState, Outcome]:
    local = Local(lr=0.1, batch_size=50, batching="wrap")
    model = small_model("mlp", hidden=[6], norm="batch")
    sim = simulate({"fedsam": {"rho": rho}}, model=model, local=local)
    return ask_clients(sim, sim.open(), [0])


def test_buffers_and_loss_are_those_before_the_step_uphill() -> None:
    (far, far_outcome), (here, here_outcome) = _one_step(3.0), _one_step(0.0)
    assert distance(far.params, here.params) > 1e-3
    assert distance(far.buffers, here.buffers) == 0
    assert far_outcome.loss == here_outcome.loss


def test_a_short_step_uphill_changes_the_gradient_in_proportion() -> None:
    base = _one_step(0.0)[0].params
    near, farther = (distance(base, _one_step(rho)[0].params) for rho in (1e-4, 2e-4))
    assert farther / near == pytest.approx(2, rel=0.01)
