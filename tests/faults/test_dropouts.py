"""Clients that do not answer cost their share of a round: no run is lost, and little accuracy."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Callable, Mapping, Sequence
from functools import partial
from pathlib import Path
from statistics import mean
from typing import Any

import pytest
from lossy_engine import Lost, each_with_chance, losing, share_of
from runs import Finished, assert_refused, call, read_summary, result

from counterpoise.core.codec import encode
from counterpoise.core.method import MethodSpec
from counterpoise.run import runner
from counterpoise.run.assemble import assemble
from counterpoise.run.config.experiment import Experiment, make_experiment
from counterpoise.run.store.folder import read_rows
from counterpoise.system.toml import write_toml

HUNDRED: dict[str, Any] = {
    "data": {"name": "digits", "imbalance": 10.0},
    "partition": {"clients": 100, "alpha": 0.5},
    "cohort": {"size": 20},
    "model": {"name": "mlp", "hidden": [32]},
    "rounds": 60,
    "checkpoint": {"every": 1000},
}
FASHION = {
    "data": {"name": "fashion_mnist", "imbalance": 100.0},
    "cohort": {"size": 10},
    "model": {"name": "mlp", "hidden": [64]},
    "rounds": 200,
}


def score(setting: Mapping[str, Any], seed: int, rate: float, folder: Path) -> float:
    """Balanced accuracy in percent, mean of the last ten rounds, where this share of each cohort is not heard."""
    experiment = make_experiment({**setting, "seed": seed})
    summary = runner.start(experiment, folder, connect=losing(share_of(rate, seed)))
    asked = experiment.cohort.size or 0
    heard = {row["replied"] for row in read_rows(folder / "metrics.jsonl")}
    assert heard == {asked - round(rate * asked)}
    assert summary["skipped_rounds"] == summary["rejected_replies"] == 0
    return 100 * float(summary["mean_last_10"]["balanced_accuracy"])


def paired_scores(setting: Mapping[str, Any], seeds: range, folder: Path) -> list[tuple[float, float]]:
    """With all answers and without 30 % of them, seed by seed."""
    return [
        (
            score(setting, seed, 0.0, folder / f"all {seed}"),
            score(setting, seed, 0.3, folder / f"some {seed}"),
        )
        for seed in seeds
    ]


def mean_gap(pairs: Sequence[tuple[float, float]]) -> float:
    return abs(mean(whole - disturbed for whole, disturbed in pairs))


def test_three_tenths_of_the_answers_lost_cost_little(tmp_path: Path) -> None:
    assert mean_gap(paired_scores(HUNDRED, range(2), tmp_path)) <= 2.0


@pytest.mark.faults
@pytest.mark.parametrize(
    "method", ["fedavg", ["fedavg", "balanced_softmax"], "fedcgnm"], ids=["fedavg", "balanced", "fedcgnm"]
)
def test_three_tenths_of_the_answers_lost_cost_under_two_points(
    method: MethodSpec, tmp_path: Path, data_root: Path, record_property: Callable[[str, object], None]
) -> None:
    pairs = paired_scores({**HUNDRED, **FASHION, "method": method}, range(5), tmp_path)
    record_property("balanced accuracy with all answers and without 30 %", pairs)
    assert mean_gap(pairs) <= 2.0


def command(monkeypatch: pytest.MonkeyPatch, lost: Lost, *words: object) -> Finished:
    """A command whose run does not hear some of its clients."""
    with monkeypatch.context() as patch:
        for name in ("start", "resume"):
            patch.setattr(runner, name, partial(getattr(runner, name), connect=losing(lost)))
        return call(*words)


def opening(experiment: Experiment) -> tuple[str, dict[str, str]]:
    """The state before the first round, named as checkpoints name it."""
    simulation = assemble(experiment)
    state = simulation.open()
    tree = {"params": state.params, "buffers": state.buffers, "slots": state.slots}
    return hashlib.sha256(encode(tree)).hexdigest(), {}


def states_of(folder: Path) -> list[tuple[str, dict[str, str]]]:
    """SHA-256 of the server's state and of each client's memory, after every round."""
    bodies = [json.loads(p.read_text())["body"] for p in sorted((folder / "checkpoints").glob("round-*"))]
    assert [body["round"] for body in bodies] == list(range(1, len(bodies) + 1))
    return [(body["server"], body["memory"]) for body in bodies]


def check_skipped(experiment: Experiment, folder: Path) -> int:
    """Rounds without a reply are logged so, and leave all state as it was; how many."""
    rows, states = read_rows(folder / "metrics.jsonl"), [opening(experiment), *states_of(folder)]
    assert len(states) == len(rows) + 1
    for row, before, after in zip(rows, states, states[1:], strict=False):
        assert row["skipped"] == (row["replied"] == 0) == (after == before)
    return sum(row["skipped"] for row in rows)


def dropping(method: MethodSpec, rounds: int, clients: int, cohort: int, **engine: int) -> Experiment:
    """Checkpoints of all rounds are kept, to be compared."""
    tables = {"method": method, "rounds": rounds, "engine": engine, "checkpoint": {"keep": rounds + 1}}
    return make_experiment(
        {**HUNDRED, **tables, "partition": {"clients": clients, "alpha": 0.5}, "cohort": {"size": cohort}}
    )


def check_drop_rate(
    rate: float, setting: tuple[MethodSpec, int, int, int], folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    experiment, out = dropping(*setting), folder / "run"
    lost = each_with_chance(
        rate, 0, until=experiment.rounds - 1
    )  # a run that ends unheard may have no result
    (folder / "drops.toml").write_text(write_toml(experiment.tables()))
    finished = command(monkeypatch, lost, "run", folder / "drops.toml", "--out", out)
    while finished.code == 4 and rate < 1:
        # Only five rounds in a row stop it, and it goes on from there.
        assert [row["skipped"] for row in read_rows(out / "metrics.jsonl")[-5:]] == [True] * 5
        finished = command(monkeypatch, lost, "resume", out)
    skipped = check_skipped(experiment, out)
    if rate == 1:
        assert_refused(finished, 4, "5 rounds in a row were skipped", "0 replied", "resume")
        assert skipped == len(read_rows(out / "metrics.jsonl")) == 5
        return
    assert finished.code == 0, finished
    patient = dropping(*setting, max_skipped=10_000)
    whole = runner.start(patient, folder / "whole", connect=losing(lost))
    assert result(read_summary(out)) == result(whole)
    assert whole["skipped_rounds"] == skipped
    assert (skipped > 0) or rate < 0.9


RATES = [0.0, 0.1, 0.5, 0.9, 1.0]


@pytest.mark.parametrize("rate", RATES)
def test_any_share_of_lost_answers_ends_cleanly(
    rate: float, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    check_drop_rate(rate, (["scaffold", "server_momentum"], 20, 10, 4), tmp_path, monkeypatch)


@pytest.mark.faults
@pytest.mark.parametrize("rate", RATES)
@pytest.mark.parametrize("method", ["fedavg", "fedavgm", "scaffold"])
def test_any_share_of_lost_answers_ends_cleanly_over_200_rounds(
    method: str, rate: float, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    check_drop_rate(rate, (method, 200, 100, 10), tmp_path, monkeypatch)
