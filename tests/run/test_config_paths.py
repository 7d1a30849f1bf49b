"""Relative paths of a user's file are looked up beside it; `natural` without a number of clients takes all there are."""

from __future__ import annotations

from pathlib import Path

import pytest
import torch
from runs import TINY, call

import counterpoise as cp
from counterpoise.run.assemble import load_federation
from counterpoise.run.config.experiment import load_experiment, make_experiment, open_experiment
from counterpoise.run.runner import start
from counterpoise.sweep.sweep import load_sweep, open_sweep
from counterpoise.system.toml import write_toml

ROWS = [f"{row},{'abc'[row % 3]},{'pq'[row // 3 % 2]}" for row in range(30)]
NATURAL = {"name": "table", "path": "mine.csv", "label": "y", "client": "site"}


@pytest.fixture
def study(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A folder with a table of three clients and an experiment on it, seen from the folder above."""
    folder = tmp_path / "study"
    folder.mkdir()
    monkeypatch.chdir(tmp_path)
    (folder / "mine.csv").write_text("\n".join(["age,site,y", *ROWS]))
    tables = TINY | {"data": NATURAL, "partition": {"name": "natural"}}
    (folder / "mine.toml").write_text(write_toml(tables))
    return Path("study")


def test_natural_without_clients_takes_all_there_are_and_a_wrong_number_is_refused(study: Path) -> None:
    start(open_experiment(study / "mine.toml", ["rounds=1"]), Path("out"))
    assert load_experiment(Path("out/config.toml")).partition.clients == 3
    wrong = call("validate", study / "mine.toml", "partition.clients=10")
    assert (wrong.code, len(wrong.err.splitlines())) == (2, 1)
    assert "clients must be 3, or 0 for all, not 10" in wrong.err


def test_a_sweep_over_partitions_and_python_take_the_usual_number_of_each(study: Path) -> None:
    made = make_experiment({"partition": {"name": "natural"}})
    assert made.partition.clients == make_experiment(made.tables()).partition.clients == 0
    assert make_experiment({"partition": {"name": "iid"}}).partition.clients == 10
    data = cp.load_data("table", path=str(study / "mine.csv"), label="y", client="site")
    assert cp.split(data, "natural").client_names == ("a", "b", "c")
    assert len(cp.split(data, "iid").clients) == 10


def test_a_run_is_the_same_from_every_folder(study: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    above = load_federation(open_experiment(study / "mine.toml"))
    assert open_experiment(study / "mine.toml").data.arguments["path"] == "study/mine.csv"
    monkeypatch.chdir(study)
    assert open_experiment(Path("mine.toml")).data.arguments["path"] == "mine.csv"
    assert torch.equal(load_federation(open_experiment(Path("mine.toml"))).train.x, above.train.x)


def test_other_paths_stay_as_they_are(study: Path) -> None:
    def path_of(**data: object) -> object:
        file = study / "other.toml"
        file.write_text(write_toml({"data": NATURAL | data}))
        return open_experiment(file).data.arguments["path"]

    assert path_of(path="absent.csv") == "absent.csv"  # then looked up in the current folder, as before
    assert path_of(path=str(study.resolve() / "mine.csv")) == str(study.resolve() / "mine.csv")
    assert path_of(path="mine.csv", root="elsewhere") == "mine.csv"
    assert open_experiment(study / "mine.toml", ["data.path=typed.csv"]).data.arguments["path"] == "typed.csv"
    assert load_experiment(study / "mine.toml").data.arguments["path"] == "mine.csv"  # a run's own copy


def test_paths_of_a_sweep_are_looked_up_beside_it(study: Path) -> None:
    file, base = study / "sweep.toml", {"data": NATURAL, "model": {"weights": "mine.csv"}}
    problems = [{"name": "a", "data.path": "mine.csv"}, {"name": "b", "data": {"path": "mine.csv"}}]
    file.write_text(write_toml({"methods": ["fedavg"], "base": base, "problems": problems}))
    found = open_sweep(file)
    assert found.base["data"]["path"] == found.base["model"]["weights"] == "study/mine.csv"
    assert found.problems[0]["data.path"] == found.problems[1]["data"]["path"] == "study/mine.csv"
    file.write_text(write_toml({"methods": ["fedavg"], "vary": {"data.path": ["mine.csv", "absent.csv"]}}))
    assert open_sweep(file).vary["data.path"] == ["study/mine.csv", "absent.csv"]
    assert load_sweep(file).vary["data.path"] == ["mine.csv", "absent.csv"]
