"""Rounds of very many small clients: replies are held once, and refused where they do not fit."""

from __future__ import annotations

import time

import pytest
import torch

from counterpoise.core.local import Local
from counterpoise.data.dataset import Samples, no_scaling
from counterpoise.data.federation import Federation
from counterpoise.engines.choose import EngineSettings
from counterpoise.engines.loop import LoopTrainer
from counterpoise.engines.processes import ProcessTrainer, can_fork
from counterpoise.errors import ConfigError
from counterpoise.run.build import build_simulation
from counterpoise.run.simulation import Simulation
from counterpoise.system import capacity

FEATURES, MODEL = 784, 712_440  # bytes of an MLP 784-200-100-10


def simulate(clients: int, features: int = FEATURES, cohort: int | None = None) -> Simulation:
    """Clients of two samples each, drawn from one pool."""
    stream = torch.Generator().manual_seed(0)
    x, y = torch.randn(1000, features, generator=stream), torch.randint(0, 10, (1000,), generator=stream)
    rows = torch.randint(0, len(y), (clients, 2), generator=stream)
    federation = Federation(
        Samples(x, y), Samples(x[:10], y[:10]), tuple("0123456789"), no_scaling(), tuple(rows)
    )
    engine = EngineSettings("loop", "cpu", processes=1)
    return build_simulation(
        federation, "fedavg", "mlp", rounds=2, local=Local(), cohort=cohort, engine=engine
    )


def test_a_cohort_whose_replies_do_not_fit_is_refused_before_the_first_round(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(capacity, "available_bytes", lambda: 200_000_000)
    said = r"^cohort\.size: a round of 1,000 trainings, 712\.4 kB each, needs 712\.4 MB of memory; at most 200\.0 MB here$"
    with pytest.raises(ConfigError, match=said):
        simulate(1000)
    assert simulate(1000, cohort=100).cohort.size == 100


@pytest.mark.parametrize("processes", [1, 2])
def test_a_trainer_looks_at_its_first_result_before_it_makes_room_for_all(
    processes: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    if processes > 1 and not can_fork():
        pytest.skip("needs workers that are forked")
    simulation = simulate(200)
    trainer = LoopTrainer() if processes == 1 else ProcessTrainer(simulation.work, processes)
    monkeypatch.setattr(simulation.engine, "trainer", trainer)
    monkeypatch.setattr(capacity, "available_bytes", lambda: 200 * MODEL - 1)
    try:
        with pytest.raises(ConfigError, match=r"^cohort\.size: a round of 200 trainings, 712\.4 kB each"):
            simulation.advance(simulation.open())
    finally:
        trainer.close()


@pytest.mark.parametrize("clients", [2_000, pytest.param(20_000, marks=pytest.mark.faults)])
def test_a_full_round_takes_a_time_that_follows_the_number_of_small_clients(clients: int) -> None:
    simulation = simulate(clients, features=8)
    began = time.process_time()
    state, outcome = simulation.advance(simulation.open())
    assert outcome.replied == clients
    assert time.process_time() - began < clients / 100  # about 1 ms a client, on one core
    assert torch.isfinite(state.params["head.weight"]).all()
