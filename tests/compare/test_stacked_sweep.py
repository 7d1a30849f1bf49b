"""A sweep on the stacked engine: seeds and learning rates of one method are one program."""

from __future__ import annotations

import json
from pathlib import Path

from sweeps import run_here, tiny_sweep

from counterpoise.compare.execute import group, order, run_group
from counterpoise.compare.jobs import expand
from counterpoise.experiment.config import load_experiment

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
    together = run_here(tiny_sweep(base=STACKED), tmp_path / "together")
    alone = run_here(tiny_sweep(), tmp_path / "alone")
    assert together.failures == {}
    for job in together.jobs:
        assert len(load_experiment(job.path(tmp_path / "together") / "config.toml").engine.together) == 2
    ours, theirs = (
        [row.cells["accuracy"].values for row in one.comparison.rows] for one in (together, alone)
    )
    assert ours == theirs


def test_runs_that_cannot_be_joined_are_run_one_by_one(tmp_path: Path) -> None:
    sweep = tiny_sweep(base=STACKED, methods=["fedavg"], seeds=1, vary={"data.seed": [0, 1]})
    orders = [order(job, tmp_path, alone=True) for job in expand(sweep)]
    assert len(group(orders)) == 2  # other samples of the long tail
    assert run_group(orders) == [None, None]
    for one in orders:
        assert (Path(one.path) / "summary.json").exists()
        assert load_experiment(Path(one.path) / "config.toml").engine.together == []
