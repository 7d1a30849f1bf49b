"""The rarest class comes back after all who hold it were away."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from pathlib import Path
from statistics import mean
from typing import Any

import pytest
import torch
from lossy_engine import Lost, all_finite, away, losing
from runs import read_strictly

from counterpoise.core.method import MethodSpec
from counterpoise.data.federation import Federation
from counterpoise.run.assemble import load_federation
from counterpoise.run.config.experiment import Experiment, make_experiment
from counterpoise.run.runner import start
from counterpoise.run.store.checkpoint import CheckpointStore

AWAY = range(30, 40)
ROUNDS = AWAY.stop + 30

DIGITS: dict[str, Any] = {
    "method": ["fedavg", "balanced_softmax"],
    "data": {"name": "digits", "imbalance": 5.0},
    "partition": {"clients": 10, "alpha": 0.1},
    "model": {"name": "mlp", "hidden": [32]},
    "rounds": ROUNDS,
    "checkpoint": {"every": ROUNDS},
}
FASHION = {
    "data": {"name": "fashion_mnist", "imbalance": 100.0},
    "partition": {"clients": 20, "alpha": 0.1},
    "model": {"name": "mlp", "hidden": [64]},
}


def rarest(federation: Federation) -> tuple[int, list[int]]:
    """The class with the fewest samples, and who holds it: some clients, but not all."""
    counts = federation.counts()
    label = int(counts.sum(0).argmin())
    holders = torch.nonzero(counts[:, label]).flatten().tolist()
    assert 0 < len(holders) < len(counts)
    return label, holders


def recalls(experiment: Experiment, federation: Federation, lost: Lost, folder: Path) -> list[float]:
    """Recall of the rarest class after each round, in percent; nothing on the way is other than finite."""
    start(experiment, folder, federation=federation, connect=losing(lost))
    rows = [read_strictly(line) for line in (folder / "metrics.jsonl").read_text().splitlines()]
    assert not any(row["rejected"] or row["skipped"] for row in rows)
    last = CheckpointStore(folder / "checkpoints").load()
    assert last is not None
    assert all_finite(last.server, *last.memory.values())
    return [100 * row["per_class_recall"][rarest(federation)[0]] for row in rows]


def disturbed(setting: Mapping[str, Any], seed: int, folder: Path) -> dict[str, float]:
    """Recall as the holders come back and 30 rounds later, in the undisturbed run and in the other."""
    experiment = make_experiment({**setting, "seed": seed})
    federation = load_federation(experiment)
    whole = recalls(experiment, federation, away((), ()), folder / f"whole {seed}")
    other = recalls(experiment, federation, away(rarest(federation)[1], AWAY), folder / f"other {seed}")
    assert whole[: AWAY.start] == other[: AWAY.start]
    points = {"at return": AWAY.stop - 1, "30 rounds later": ROUNDS - 1}
    return {
        f"{run}, {when}": rows[k]
        for run, rows in (("whole", whole), ("other", other))
        for when, k in points.items()
    }


def check_return(found: list[dict[str, float]]) -> None:
    def gap(when: str) -> float:
        return mean(one[f"whole, {when}"] - one[f"other, {when}"] for one in found)

    assert gap("at return") > 10  # the absence is felt
    assert abs(gap("30 rounds later")) <= 5


def test_the_rarest_class_comes_back(tmp_path: Path) -> None:
    check_return([disturbed(DIGITS, seed, tmp_path) for seed in range(2)])


@pytest.mark.faults
@pytest.mark.parametrize(
    "method", ["fedavg", ["fedavg", "balanced_softmax"], "fedcgnm"], ids=["fedavg", "balanced", "fedcgnm"]
)
def test_the_rarest_class_comes_back_on_five_seeds(
    method: MethodSpec, tmp_path: Path, data_root: Path, record_property: Callable[[str, object], None]
) -> None:
    found = [disturbed({**DIGITS, **FASHION, "method": method}, seed, tmp_path) for seed in range(5)]
    record_property("recall of the rarest class", found)
    check_return(found)


@pytest.mark.parametrize("method", ["scaffold", "feddyn", "fedcm", "fedcgnm", "fedlesam"])
def test_all_stays_finite_without_the_holders_of_a_class(method: str, tmp_path: Path) -> None:
    disturbed({**DIGITS, "method": method}, 0, tmp_path)
