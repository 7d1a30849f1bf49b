"""A sweep on the stacked engine: seeds and learning rates of one method are one program."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from sweeps import ends_of, run_here, tiny_sweep

from counterpoise.run import runner
from counterpoise.run.config.experiment import load_experiment
from counterpoise.run.driver import Ended
from counterpoise.run.store.stored import Run
from counterpoise.sweep.execute import run_group
from counterpoise.sweep.jobs import expand
from counterpoise.sweep.orders import group, order

STACKED = {"engine": {"name": "stacked", "device": "cpu"}}


def test_seeds_of_a_method_are_one_group_and_others_are_not() -> None:
    jobs = expand(tiny_sweep(base=STACKED))
    groups = group([order(job, Path("out"), alone=True) for job in jobs])
    assert sorted(len(members) for members in groups) == [2, 2]
    for members in groups:
        assert len({json.dumps(one.config["method"]) for one in members}) == 1
        assert sorted(one.config["seed"] for one in members) == [0, 1]


def test_on_the_loop_engine_every_run_is_by_itself() -> None:
    jobs = expand(tiny_sweep())
    assert [len(members) for members in group([order(job, Path("out"), alone=True) for job in jobs])] == [
        1
    ] * 4


def test_a_stacked_sweep_leaves_the_runs_of_a_plain_one(tmp_path: Path) -> None:
    joined = run_here(tiny_sweep(base=STACKED), tmp_path / "together")
    alone = run_here(tiny_sweep(), tmp_path / "alone")
    assert joined.failures == {}
    for job in joined.jobs:
        assert len(load_experiment(job.path(tmp_path / "together") / "config.toml").engine.together) == 2
    ours, theirs = ([row.cells["accuracy"].values for row in one.comparison.rows] for one in (joined, alone))
    assert ours == theirs


def test_a_stacked_sweep_that_was_stopped_goes_on_to_the_same_end(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    sweep, record = tiny_sweep(methods=["fedavg"], base=STACKED | {"rounds": 4}), runner.record_round

    def fill_the_disk(run: Run, ended: Ended, seconds: float) -> None:
        if ended.state.round == 3 and run.experiment.seed == 1:  # between two runs of one round
            raise OSError(28, "No space left on device")
        record(run, ended, seconds)

    with monkeypatch.context() as broken:
        broken.setattr(runner, "record_round", fill_the_disk)
        assert len(run_here(sweep, tmp_path / "stopped").failures) == 2
    assert run_here(sweep, tmp_path / "stopped").failures == {}
    run_here(sweep, tmp_path / "whole")
    assert ends_of(tmp_path / "stopped") == ends_of(tmp_path / "whole")


def test_runs_that_cannot_be_joined_are_run_one_by_one(tmp_path: Path) -> None:
    sweep = tiny_sweep(base=STACKED, methods=["fedavg"], seeds=1, vary={"data.seed": [0, 1]})
    orders = [order(job, tmp_path, alone=True) for job in expand(sweep)]
    assert len(group(orders)) == 2  # other samples of the long tail
    assert run_group(orders) == [None, None]
    for one in orders:
        assert (Path(one.path) / "summary.json").exists()
        assert load_experiment(Path(one.path) / "config.toml").engine.together == []
