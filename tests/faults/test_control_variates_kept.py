"""SCAFFOLD's server variate stays the mean of its clients', however many answers are lost."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from contextlib import closing
from typing import Any

import pytest
import torch
from lossy_engine import all_finite, losing, share_of
from torch import Tensor

from counterpoise.core.tree import leaves
from counterpoise.run.assemble import assemble
from counterpoise.run.config.experiment import make_experiment
from counterpoise.run.simulation import Simulation
from counterpoise.server.state import ServerState

SETTING: dict[str, Any] = {
    "method": "scaffold",
    "data": {"name": "digits", "imbalance": 10.0},
    "partition": {"clients": 20, "alpha": 0.5},
    "cohort": {"size": 10},
    "model": {"name": "mlp", "hidden": [16]},
}
# Rounding adds up over rounds: in float32 a thousand of them come to 1e-5, one answer kept by its client alone to 0.1.
BOUNDS = {"float64": 1e-6, "float32": 1e-4}


def control(tree: Mapping[str, Any]) -> Tensor:
    """A control variate as one vector in float64."""
    return torch.cat([leaf.double().flatten() for leaf in leaves(tree["control_variates"]["control"])])


def departure(simulation: Simulation, state: ServerState) -> float:
    """|c - mean(c_k)| / |c|; clients that were never heard of have c_k = 0."""
    server = control(state.slots)
    total = sum((control(kept) for kept in simulation.engine.memory.values()), torch.zeros_like(server))
    mean = total / len(simulation.work.federation.clients)
    return float((server - mean).norm() / server.norm())


def departures(rounds: int, dtype: str) -> list[float]:
    """After each round in which 30 % of the clients trained in vain."""
    experiment = make_experiment({**SETTING, "rounds": rounds, "engine": {"dtype": dtype}})
    found = []
    with closing(assemble(experiment, connect=losing(share_of(0.3, 0)))) as simulation:
        state = simulation.open()
        for _ in range(rounds):
            state, outcome = simulation.advance(state)
            assert (outcome.asked, outcome.replied, outcome.rejected) == (10, 7, ())
            found.append(departure(simulation, state))
        assert all_finite(state.params, state.slots, *simulation.engine.memory.values())
    return found


@pytest.mark.parametrize("dtype", BOUNDS)
def test_lost_answers_leave_the_variate_at_the_mean(dtype: str) -> None:
    assert max(departures(30, dtype)) <= BOUNDS[dtype]


@pytest.mark.faults
@pytest.mark.parametrize("dtype", BOUNDS)
def test_lost_answers_of_a_thousand_rounds_leave_the_variate_at_the_mean(
    dtype: str, record_property: Callable[[str, object], None]
) -> None:
    found = departures(1000, dtype)
    record_property("largest and last departure", (max(found), found[-1]))
    assert max(found) <= BOUNDS[dtype]
