"""Tuning: the same budget for every method, and no look at the test set."""

from __future__ import annotations

import json
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
import torch
from runs import call
from sweeps import run_here, tiny_sweep, write_tiny_sweep

from counterpoise.data.dataset import Samples
from counterpoise.data.federation import Federation
from counterpoise.errors import ConfigError
from counterpoise.run.assemble import load_federation
from counterpoise.run.config.experiment import make_experiment
from counterpoise.run.store.folder import read_rows
from counterpoise.sweep import execute
from counterpoise.sweep.grids import draw_settings
from counterpoise.sweep.sweep import Sweep
from counterpoise.sweep.tune import jobs_of, searches_of, use_validation_as_test

HELD = {"data": {"name": "digits", "imbalance": 10.0, "validation": 0.3}}
TUNE = {"grid": {"local.lr": [0.001, 0.1, 0.3], "method.fedprox.mu": [0.1, 1.0]}, "budget": 4}


def tuned_sweep(**keys: Any) -> Sweep:
    return tiny_sweep(**({"methods": ["fedavg", "fedprox"], "seeds": 1, "base": HELD, "tune": TUNE} | keys))


def test_a_grid_is_every_combination_within_the_budget() -> None:
    settings = draw_settings({"a": [1, 2], "b": ["x", "y", "z"]}, 6, "any")
    assert len(settings) == 6
    assert {(setting["a"], setting["b"]) for setting in settings} == {(a, b) for a in (1, 2) for b in "xyz"}
    assert draw_settings({}, 3, "any") == [{}]


def test_a_larger_grid_is_drawn_the_same_every_time() -> None:
    grid = {"a": list(range(100)), "b": list(range(100_000))}
    drawn = draw_settings(grid, 7, "fedavg")
    assert drawn == draw_settings(grid, 7, "fedavg") != draw_settings(grid, 7, "fedcm")
    assert len({tuple(setting.values()) for setting in drawn}) == 7


def test_each_method_tries_what_applies_to_it_with_one_budget() -> None:
    methods = ["fedavg", "fedprox", {"name": "own", "method": "scaffold", "grid": {"local.lr": [0.5]}}]
    plain, prox, own = searches_of(tuned_sweep(methods=methods))
    assert (plain.grid, len(plain.trials)) == (3, 3)
    assert (prox.grid, len(prox.trials)) == (6, 4)
    assert (own.grid, [trial.setting for trial in own.trials]) == (1, [{"local.lr": 0.5}])
    assert len(jobs_of([plain, prox, own])) == 7  # one setting needs no run to be chosen
    assert len({job.name for job in jobs_of([plain, prox, own])}) == 7


def test_tuning_runs_have_their_own_seeds_rounds_and_folders(tmp_path: Path) -> None:
    search, _ = searches_of(tuned_sweep(tune=TUNE | {"seeds": [7, 8], "rounds": 1}))
    assert [(job.experiment.seed, job.experiment.rounds) for job in search.trials[0].jobs] == [(7, 1), (8, 1)]
    assert search.trials[0].jobs[0].path(tmp_path).parent == tmp_path / "tuning"


def test_the_setting_with_the_best_validation_score_runs(tmp_path: Path) -> None:
    finished = run_here(tuned_sweep(tune=TUNE | {"seeds": 2}), tmp_path)
    record = json.loads((tmp_path / "tuning.json").read_text())
    assert (record["budget"], record["split"], record["score"]) == (4, "validation", "balanced_accuracy")
    for search, job in zip(record["searches"], finished.jobs, strict=True):
        execution = [sum(trial["scores"]) / 2 for trial in search["trials"]]
        best = search["trials"][execution.index(max(execution))]["setting"]
        assert search["chosen"] == best
        assert job.experiment.local.lr == best["local.lr"] != 0.001
        assert search["tried"] == len(search["trials"]) <= 4
    assert finished.failures == {}
    assert {row.method for row in finished.comparison.rows} == {"fedavg", "fedprox"}
    assert {row.problem for row in finished.comparison.rows} == {""}


def test_settings_that_finished_runs_do_not_have_are_refused_and_nothing_is_changed(tmp_path: Path) -> None:
    run_here(tuned_sweep(methods=["fedavg"], tune={"grid": {"local.lr": [0.001, 0.1]}}), tmp_path)
    files = [tmp_path / name for name in ("sweep.toml", "tuning.json", "table.json")]
    before = [path.read_bytes() for path in files]
    with pytest.raises(ConfigError, match=r"holds a run of another config: .*lr"):
        run_here(tuned_sweep(methods=["fedavg"], tune={"grid": {"local.lr": [0.001]}}), tmp_path)
    assert [path.read_bytes() for path in files] == before


def scrambled(federation: Federation) -> Federation:
    """The federation with other test labels."""
    return replace(federation, test=Samples(federation.test.x, 9 - federation.test.y))


def tuned_with(
    load: Callable[..., Federation], out: Path, monkeypatch: pytest.MonkeyPatch
) -> tuple[str, str]:
    """What tuning notes and the table says when data are loaded in this way."""
    execute._load.cache_clear()
    monkeypatch.setattr(execute, "load_federation", load)
    run_here(tuned_sweep(), out)
    return (out / "tuning.json").read_text(), (out / "table.json").read_text()


def test_tuning_never_looks_at_the_test_set(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    tuning, table = tuned_with(load_federation, tmp_path / "plain", monkeypatch)
    other_tuning, other_table = tuned_with(
        lambda *given: scrambled(load_federation(*given)), tmp_path / "scrambled", monkeypatch
    )
    assert tuning == other_tuning
    assert table != other_table
    plain, blind = (
        {path.parent.name: path.read_text() for path in (tmp_path / name / "tuning").rglob("metrics.jsonl")}
        for name in ("plain", "scrambled")
    )
    assert plain == blind != {}


@pytest.mark.parametrize("where", ["data", "partition"])
def test_a_tuning_run_is_scored_on_what_is_held_out(where: str) -> None:
    federation = load_federation(make_experiment({where: {"validation": 0.3}}))
    blind = use_validation_as_test(federation)
    held = (
        federation.validation
        if federation.validation is not None
        else federation.train.take(torch.cat(federation.held_out))
    )
    assert len(blind.test.y) > 50
    assert torch.equal(blind.test.x, held.x)
    assert torch.equal(blind.test.y, held.y)
    assert blind.validation is federation.validation  # some methods learn from it
    assert blind.clients is federation.clients


@pytest.mark.parametrize(
    "method", [["fedavg", {"ratio_loss": {"source": "auxiliary"}}], ["fedavg", "fedhoo"]]
)
def test_methods_that_learn_from_validation_samples_can_be_tuned(
    method: list[object], tmp_path: Path
) -> None:
    base = HELD | {"rounds": 1, "partition": {"name": "iid", "clients": 2}, "cohort": {"size": 2}}
    tables = {"methods": [method], "seeds": 1, "base": base, "tune": {"grid": {"local.lr": [0.1, 0.01]}}}
    code, out, err = call(
        "compare", write_tiny_sweep(tmp_path, **tables), "--processes", 1, "--out", tmp_path / "out"
    )
    assert code == 0, err
    assert "2 of 2 settings, chosen lr=" in out


def test_a_split_without_samples_is_refused() -> None:
    with pytest.raises(ConfigError, match="tuning needs validation samples"):
        use_validation_as_test(load_federation(make_experiment({})))


def test_a_setting_that_fails_is_not_chosen_and_does_not_end_the_sweep(tmp_path: Path) -> None:
    tables = {
        "methods": ["fedavg"],
        "seeds": 1,
        "base": HELD | {"rounds": 6},
        "tune": {"grid": {"local.lr": [1e30, 0.1]}},
    }
    code, out, err = call(
        "compare", write_tiny_sweep(tmp_path, **tables), "--processes", 1, "--out", tmp_path / "out"
    )
    assert code == 0, err
    assert "tuned by balanced_accuracy on the validation split, at most 10 settings per method" in out
    assert "fedavg: 2 of 2 settings, chosen lr=0.1" in out
    assert err.startswith("note: not chosen, since it failed: ")
    assert len(err.splitlines()) == 1


def test_a_setting_that_fails_is_not_chosen_however_often_the_command_is_given(tmp_path: Path) -> None:
    tables = {"methods": ["fedavg"], "seeds": 1, "base": HELD | {"rounds": 12}}
    tune = {"grid": {"local.lr": [1e30, 0.1]}}  # the first skips every round
    command = (
        "compare",
        write_tiny_sweep(tmp_path, **tables, tune=tune),
        "--processes",
        1,
        "--out",
        tmp_path / "out",
    )
    for _ in range(3):
        code, out, err = call(*command)
        assert code == 0, err
        assert "chosen lr=0.1" in out
        assert "not chosen, since it failed" in err
        assert "lower local.lr" in err
    (search,) = json.loads((tmp_path / "out" / "tuning.json").read_text())["searches"]
    assert search["trials"][0]["scores"] == [None]
    assert len(read_rows(next((tmp_path / "out" / "tuning").glob("*1e*")) / "metrics.jsonl")) == 5


def test_a_method_without_a_setting_that_works_is_reported(tmp_path: Path) -> None:
    methods = [{"method": "fedavg", "grid": {"local.lr": [1e30, 2e30]}}, "fedprox"]
    tables = {"methods": methods, "seeds": 1, "base": HELD | {"rounds": 6}, "tune": {}}
    code, out, err = call(
        "compare", write_tiny_sweep(tmp_path, **tables), "--processes", 1, "--out", tmp_path / "out"
    )
    assert code == 4
    assert "fedavg: none of 2 settings could be scored" in out
    assert err.splitlines()[-1].startswith("error: failed: ")
    assert "fedavg-seed0: not run: none of its settings could be scored" in err.splitlines()[-1]
    assert (tmp_path / "out" / "runs" / "fedprox-seed0" / "summary.json").exists()
