"""A run's folder as one object: frames by name, confusion counts, five lines of text."""

from __future__ import annotations

import json
import shutil
import sys
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from federations import every_spec
from runs import read_summary, tiny
from used_runs import Used, make_run, write_rows

import counterpoise as cp
from counterpoise.core.method import build_method
from counterpoise.errors import ConfigError, DataError, RunError
from counterpoise.results.results import read_result
from counterpoise.run.runner import resume, start
from counterpoise.run.store.folder import RunFolder
from counterpoise.run.trained import TrainedModel
from counterpoise.server.cohort import Cohort
from counterpoise.trained.load import LoadedRun
from counterpoise.trained.outcome import RunOutcome


@pytest.fixture(scope="module")
def named(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Clients and classes with names, scored on what clients hold out, every second round."""
    folder = tmp_path_factory.mktemp("named")
    rows = [[k % 7, k % 11, ("cat", "dog")[k % 2], ("Oslo", "Bonn", "Rome")[k % 3]] for k in range(120)]
    path = write_rows(folder / "pets.csv", ["a", "b", "animal", "town"], rows)
    data = {"name": "table", "path": str(path), "label": "animal", "client": "town"}
    partition = {"name": "natural", "clients": 0, "validation": 0.2}
    return make_run(
        folder / "run", data, partition=partition, evaluate={"clients": True, "every": 2}, rounds=4
    )


def test_frames_have_rounds_from_one_and_classes_and_clients_by_name(named: Path) -> None:
    run, rows = cp.load_run(named), read_result(named).rows
    rounds = run.frame()
    assert list(rounds.index) == [1, 2, 3, 4]
    assert rounds["accuracy"].isna().tolist() == [True, False, True, False]
    assert rounds.loc[4, "accuracy"] == rows[3]["accuracy"] == run["accuracy"]
    classes = run.frame("classes")
    assert list(classes.index) == ["cat", "dog"]
    assert classes["recall"].tolist() == rows[3]["per_class_recall"]
    clients = run.frame("clients")
    assert list(clients.index) == ["Bonn", "Oslo", "Rome"]
    assert clients["samples"].tolist() == [sum(row) for row in read_result(named).record["clients"]]
    assert (clients["samples of cat"] + clients["samples of dog"] == clients["samples"]).all()
    assert clients["balanced_accuracy"].tolist() == rows[3]["clients"]["client_balanced_accuracy"]


def test_a_frame_of_something_else_is_refused(named: Path) -> None:
    with pytest.raises(ConfigError, match="frame must be one of rounds, classes, clients, not 'round'"):
        cp.load_run(named).frame("round")  # type: ignore[arg-type]


def test_a_missing_pandas_is_one_line(named: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "pandas", None)
    run = cp.load_run(named)
    for made in (run.frame, lambda: run.frame("clients"), lambda: run.confusion().frame()):
        with pytest.raises(ConfigError, match=r"frames need pandas; install counterpoise\[frame\]"):
            made()
    assert run.predict({"a": [1], "b": [2]}).labels[0] in ("cat", "dog")


def test_confusion_is_that_of_the_scores_in_numbers_and_in_a_picture(arrays: Used, tmp_path: Path) -> None:
    run = cp.load_run(arrays.run)
    found = run.confusion()
    recalls = np.diag(found.counts) / found.counts.sum(1)
    assert recalls.tolist() == pytest.approx(run["per_class_recall"])
    assert found.shares.sum(1).tolist() == pytest.approx([1.0] * 10)
    frame = found.frame()
    assert frame.loc["3", "5"] == found.counts[3, 5]
    assert found.draw(tmp_path / "c.png").read_bytes() == found.draw(tmp_path / "d.png").read_bytes()
    assert found._repr_png_().startswith(b"\x89PNG")


def test_an_outcome_is_five_lines(table: Used, named: Path) -> None:
    outcome = cp.simulate(cp.split(cp.load_data("digits"), clients=2), rounds=1)
    for one in (outcome, cp.load_run(table.run), cp.load_run(named)):
        lines = repr(one).splitlines()
        assert len(lines) == 5
        assert lines[0].startswith("fedavg on ")
        assert f"{100 * one['accuracy']:.1f} %" in lines[2]
        assert one._repr_html_().count("<br>") == 4


def test_an_outcome_is_used_alike_from_python_and_from_its_folder(arrays: Used) -> None:
    """`module` was an attribute of the one and a method of the other."""
    outcome = cp.simulate(cp.split(cp.load_data("digits"), clients=2), rounds=1)
    for one in (outcome, cp.load_run(arrays.run)):
        assert isinstance(one, RunOutcome)
        assert isinstance(one.module, TrainedModel)
        assert one.module is one.module
        assert one.classes == one.module.classes == one.confusion().classes
        assert dict(one) == one.summary
        assert ".module," in repr(one)
        assert "module()" not in repr(one)


def test_names_in_an_outcome_cannot_become_markup(tmp_path: Path) -> None:
    rows = [[k % 7, ("<b>x", "y")[k % 2]] for k in range(40)]
    path = write_rows(tmp_path / "<i>.csv", ["a", "l"], rows)
    run = cp.load_run(
        make_run(tmp_path / "run", {"name": "table", "path": str(path), "label": "l"}, rounds=1)
    )
    assert "<i>" in repr(run)
    assert "<i>" not in run._repr_html_()
    assert "<b>" not in run._repr_html_()


def changes_the_model(spec: Any) -> bool:
    """Whether a method adapts the model, or presents another one than it trains."""
    return any(part.adapt is not None or part.present is not None for part in build_method(spec).parts)


@pytest.mark.parametrize("spec", [spec for spec in every_spec() if changes_the_model(spec)], ids=str)
def test_the_module_is_the_one_that_was_scored_whatever_the_method(spec: Any, tmp_path: Path) -> None:
    test = cp.load_data("digits").test
    experiment = tiny("rounds=1", "model.hidden=[16]", "data.validation=0.1", "partition.validation=0.2")
    start(replace(experiment, method=spec, cohort=Cohort()), tmp_path / "run")
    run = cp.load_run(tmp_path / "run")
    assert float((run.predict(test.x).codes == test.y).double().mean()) == run["accuracy"]


def test_a_model_in_double_precision_with_a_frozen_body_is_loaded_as_it_was(tmp_path: Path) -> None:
    start(tiny("rounds=1", "engine.dtype=float64", "model.freeze=['body.*']"), tmp_path / "run")
    run, test = cp.load_run(tmp_path / "run"), cp.load_data("digits").test
    assert float((run.predict(test.x).codes == test.y).double().mean()) == run["accuracy"]
    assert {p.dtype for p in run.module.parameters()} == {torch.float64}


def test_preprocessing_changes_no_result(table: Used) -> None:
    """What is kept for later use is written beside the results, and drawn from nothing."""
    summary = read_summary(table.run)
    assert summary["files_sha256"].keys() >= {"preprocessing.json", "model.safetensors"}
    rows = (table.run / "metrics.jsonl").read_text().splitlines()
    assert not any("confusion" in json.loads(row) for row in rows)


def test_an_unfinished_run_has_frames_and_no_model(named: Path, tmp_path: Path) -> None:
    shutil.copytree(named, tmp_path / "run")
    (tmp_path / "run" / "summary.json").unlink()
    run = cp.load_run(tmp_path / "run")
    assert len(run.frame()) == 4
    assert "not finished" in repr(run)
    with pytest.raises(RunError, match="counterpoise resume"):
        _ = run.module


def test_a_run_of_an_older_version_gets_its_preprocessing_when_it_is_resumed(
    table: Used, tmp_path: Path
) -> None:
    shutil.copytree(table.run, tmp_path / "run")
    RunFolder(tmp_path / "run").preprocessing.unlink()
    with pytest.raises(DataError, match=r"preprocessing\.json is missing"):
        _ = cp.load_run(tmp_path / "run").module
    resume(tmp_path / "run")
    wanted = (table.run / "preprocessing.json").read_bytes()
    assert (tmp_path / "run" / "preprocessing.json").read_bytes() == wanted
    assert isinstance(cp.load_run(tmp_path / "run"), LoadedRun)
    assert read_summary(tmp_path / "run")["params_sha256"] == read_summary(table.run)["params_sha256"]


def test_a_folder_without_a_run_is_refused(tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match=r"holds no run: there is no config\.toml in it"):
        cp.load_run(tmp_path)
