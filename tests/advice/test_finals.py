"""Which finals are concluded from: further ones replace those before them only if they tell as much."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
from made_runs import made_run

from counterpoise.advice.finals import run_finals
from counterpoise.advice.goal import Goal
from counterpoise.advice.memory import Memory
from counterpoise.advice.plan import Rung, Time
from counterpoise.advice.trials import Trial
from counterpoise.results.results import RunResult

ROUNDS = 20
DATA = "0" * 64  # SHA-256
FEDAVG, OLD, NEW = (Trial(label, label, {"local.lr": 0.1}, "") for label in ("fedavg", "old", "new"))
EVERYONE = [FEDAVG, OLD, NEW]


class FakeRace:
    """A race whose runs have ended: so many seeds of each method."""

    goal = Goal("balanced_accuracy", "balanced_accuracy", "balanced accuracy")
    course = SimpleNamespace(experiment=SimpleNamespace(rounds=ROUNDS))

    def __init__(self, seeds: Mapping[str, int], seconds: float = 0.0) -> None:
        self._seeds, self._seconds = seeds, seconds

    def rung(self, *given: Any, **options: Any) -> None:
        """Nothing is left to run."""

    def time(self) -> Time:
        return Time(self._seconds, processes=1, pace=1.0)

    def results(self, trial: Trial, rung: Rung) -> dict[int, RunResult]:
        seeds = min(self._seeds.get(trial.label, 0), rung.seeds)
        return {seed: made_run(trial.label, seed, 0.5) for seed in range(seeds)}


@pytest.fixture
def memory(tmp_path: Path) -> Memory:
    """Of a race that reached finals of FedAvg and `old` in former minutes."""
    known = Memory(tmp_path / "advice.json", "balanced_accuracy", 5.0, DATA)
    known.keep(reached=[[FEDAVG.name, OLD.name], Rung(2, ROUNDS, 10)])
    return Memory(tmp_path / "advice.json", "balanced_accuracy", 10.0, DATA)


@pytest.mark.parametrize(
    ("seeds", "concluded"), [(0, [FEDAVG, OLD]), (4, [FEDAVG, OLD]), (5, [FEDAVG, NEW]), (10, [FEDAVG, NEW])]
)
def test_other_finalists_replace_those_before_once_they_have_enough_seeds(
    seeds: int, concluded: list[Trial], memory: Memory
) -> None:
    race: Any = FakeRace({"fedavg": 8, "old": 8, "new": seeds}, seconds=20.0 * ROUNDS)
    assert run_finals([FEDAVG, NEW], EVERYONE, race, memory).trials == concluded


def test_shorter_finals_never_replace_longer_ones(memory: Memory) -> None:
    race: Any = FakeRace({"fedavg": 10, "old": 10, "new": 10})  # no time: a fifth of the rounds
    found = run_finals([FEDAVG, NEW], EVERYONE, race, memory)
    assert (found.trials, found.rung.rounds) == ([FEDAVG, OLD], ROUNDS)


def test_the_same_finalists_are_never_planned_with_less_than_is_done(memory: Memory) -> None:
    race: Any = FakeRace({"fedavg": 10, "old": 10})
    found = run_finals([FEDAVG, OLD, NEW], EVERYONE, race, memory)
    assert (found.trials, found.rung) == ([FEDAVG, OLD], Rung(2, ROUNDS, 10))
    assert memory.finals == found.rung


def test_finals_without_a_pair_give_way_to_shorter_ones(memory: Memory) -> None:
    race: Any = FakeRace({"fedavg": 5, "new": 5})
    assert run_finals([FEDAVG, NEW], EVERYONE, race, memory).trials == [FEDAVG, NEW]
    assert memory.reached == ([FEDAVG.name, NEW.name], Rung(2, 4, 10))


def test_finals_that_told_nothing_are_planned_anew_by_the_time_there_is(memory: Memory) -> None:
    race: Any = FakeRace({"fedavg": 1, "old": 1})
    assert run_finals([FEDAVG, OLD], EVERYONE, race, memory).rung == Rung(2, 4, 10)


def test_finals_of_trials_that_are_no_more_are_forgotten(memory: Memory) -> None:
    race: Any = FakeRace({"fedavg": 10, "new": 0})
    assert run_finals([FEDAVG, NEW], [FEDAVG, NEW], race, memory).trials == [FEDAVG, NEW]
