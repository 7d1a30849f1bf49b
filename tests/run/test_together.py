"""Runs in one program: the folders of runs that were made alone, also after a stop."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from counterpoise.errors import ConfigError
from counterpoise.run import runner
from counterpoise.run.assemble import load_federation
from counterpoise.run.config.experiment import Experiment, load_experiment, make_experiment
from counterpoise.run.driver import Ended
from counterpoise.run.runner import Member, resume, run_together, start
from counterpoise.run.store.stored import Run

SEEDS = (0, 1, 2)


def experiment(seed: int, **tables: Any) -> Experiment:
    return make_experiment(
        {
            "seed": seed,
            "rounds": 4,
            "method": "scaffold",
            "data": {"name": "digits", "imbalance": 10.0},
            "partition": {"name": "dirichlet", "clients": 6, "alpha": 0.5},
            "cohort": {"size": 3},
            "engine": {"name": "stacked", "device": "cpu", "dtype": "float64"},
            **tables,
        }
    )


def members(out: Path) -> list[Member]:
    chosen = [experiment(seed) for seed in SEEDS]
    return [Member(one, out / f"seed{one.seed}", load_federation(one)) for one in chosen]


def test_each_run_is_what_it_is_alone(tmp_path: Path) -> None:
    summaries = run_together(members(tmp_path / "together"))
    for seed, summary in zip(SEEDS, summaries, strict=True):
        alone = start(experiment(seed), tmp_path / f"alone{seed}")
        assert summary["seed"] == seed
        assert summary["per_class_recall"] == alone["per_class_recall"]
        assert summary["calibration_error"] == pytest.approx(alone["calibration_error"], abs=1e-9)
        kept = json.loads((tmp_path / "together" / f"seed{seed}" / "summary.json").read_text())
        assert kept == summary
    assert len({summary["params_sha256"] for summary in summaries}) == len(SEEDS)


@pytest.mark.parametrize("behind", range(len(SEEDS)))
def test_a_stop_between_two_checkpoints_of_a_round_changes_nothing(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, behind: int
) -> None:
    whole = run_together(members(tmp_path / "whole"))
    record = runner.record_round

    def stop(run: Run, ended: Ended, seconds: float) -> None:
        if ended.state.round == 3 and run.experiment.seed == behind:
            raise KeyboardInterrupt
        record(run, ended, seconds)

    with monkeypatch.context() as patched:
        patched.setattr(runner, "record_round", stop)
        with pytest.raises(KeyboardInterrupt):
            run_together(members(tmp_path / "stopped"))
    again = run_together(members(tmp_path / "stopped"))
    assert [one["state_sha256"] for one in again] == [one["state_sha256"] for one in whole]


def test_a_run_of_several_is_not_continued_alone_or_with_others(tmp_path: Path) -> None:
    run_together(members(tmp_path))
    assert load_experiment(tmp_path / "seed0" / "config.toml").engine.together == ["seed0", "seed1", "seed2"]
    with pytest.raises(ConfigError, match="trained together"):
        resume(tmp_path / "seed0")
    with pytest.raises(ConfigError, match="cannot be resumed with"):
        run_together(members(tmp_path)[:2])
