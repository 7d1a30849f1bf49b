"""What a run leaves in its folder, and that the same settings lead to the same end by every road."""

from __future__ import annotations

import tomllib
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from runs import Hearing, finish, read_strictly, read_summary, result, spawn, tiny, write_tiny
from safetensors.torch import load_file

from counterpoise.api import load_data, simulate, split
from counterpoise.core.codec import digest
from counterpoise.core.local import Local
from counterpoise.engines.choose import EngineSettings
from counterpoise.errors import ConfigError, RunError
from counterpoise.models.model import MODELS
from counterpoise.run.assemble import assemble, fingerprint, load_federation
from counterpoise.run.config.experiment import load_experiment
from counterpoise.run.runner import resume, start
from counterpoise.run.store.checkpoint import CheckpointStore
from counterpoise.run.store.folder import RunFolder, read_rows

NEEDED = {
    "method", "seed", "rounds", "accuracy", "balanced_accuracy", "macro_f1", "per_class_recall", "head",
    "medium", "tail", "best", "mean_last_10", "seconds", "engine", "device", "params_sha256",
}  # fmt: skip
METHODS = ("fedavg", "fedavgm", "scaffold")


def loop(processes: int) -> tuple[str, str]:
    return "engine.name=loop", f"engine.processes={processes}"


@pytest.fixture(scope="module")
def finished(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The folder of a finished run of SCAFFOLD."""
    folder = tmp_path_factory.mktemp("finished") / "run"
    start(tiny("method=scaffold"), folder)
    return folder


def test_a_summary_has_all_its_names_and_is_plain_json(finished: Path) -> None:
    summary = read_summary(finished)
    assert summary.keys() >= NEEDED
    assert (summary["method"], summary["seed"], summary["rounds"]) == ("scaffold", 0, 4)
    assert len(summary["per_class_recall"]) == 10
    assert len(summary["params_sha256"]) == 64
    assert summary["device"] == "cpu"


def test_there_is_a_row_a_round(finished: Path) -> None:
    rows = [read_strictly(line) for line in (finished / "metrics.jsonl").read_text().splitlines()]
    assert [row["round"] for row in rows] == [0, 1, 2, 3]
    assert [row["replied"] for row in rows] == [2] * 4
    summary = read_summary(finished)
    assert rows[-1]["accuracy"] == summary["accuracy"]
    assert summary["best"]["accuracy"] == max(row["accuracy"] for row in rows)
    assert summary["mean_last_10"]["accuracy"] == pytest.approx(sum(row["accuracy"] for row in rows) / 4)


def test_the_resolved_config_runs_to_the_same_end(finished: Path, tmp_path: Path) -> None:
    tables = tomllib.loads((finished / "config.toml").read_text())
    assert "auto" not in (tables["engine"]["name"], tables["engine"]["device"], tables["local"]["batching"])
    assert tables["engine"]["chunk"] > 0
    assert tables["engine"]["reason"]
    again = start(load_experiment(finished / "config.toml"), tmp_path / "again")
    assert result(again) == result(read_summary(finished))


def test_the_model_that_is_kept_is_the_one_that_was_scored(finished: Path) -> None:
    params = load_file(finished / "model.safetensors")
    assert digest({"params": params}) == read_summary(finished)["params_sha256"]


def test_the_record_says_what_was_used(finished: Path) -> None:
    record = read_strictly((finished / "record.json").read_text())
    assert {"torch", "numpy", "counterpoise", "python"} <= record["versions"].keys()
    assert len(record["data_sha256"]) == 64
    assert len(record["clients"]) == 4
    assert sum(map(sum, record["clients"])) == sum(record["data"]["class_counts"])


def test_nothing_else_is_in_the_folder(finished: Path) -> None:
    names = {path.name for path in finished.iterdir()}
    pictures = {"partition.png", "curves.png"}  # not drawn in these tests
    assert names | pictures == {
        "config.toml", "record.json", "metrics.jsonl", "timing.jsonl", "summary.json", "model.safetensors",
        "preprocessing.json", "checkpoints", ".lock", *pictures,
    }  # fmt: skip


def test_a_second_run_in_the_same_folder_is_refused_and_changes_nothing(finished: Path) -> None:
    before = {path: path.stat().st_mtime_ns for path in finished.rglob("*")}
    with pytest.raises(ConfigError, match="holds a run already"):
        start(tiny(), finished)
    assert {path: path.stat().st_mtime_ns for path in finished.rglob("*")} == before


def test_a_bad_config_leaves_no_folder(tmp_path: Path) -> None:
    for bad in ("method=fedcn", "model.name=mpl", "partition.clients=100000", "data.name=mnits"):
        with pytest.raises(ConfigError):
            start(tiny(bad), tmp_path / "run")
    assert not (tmp_path / "run").exists()


def test_the_seed_decides(tmp_path: Path) -> None:
    ends = {start(tiny(f"seed={seed}"), tmp_path / str(seed))["params_sha256"] for seed in range(3)}
    assert len(ends) == 3


@pytest.mark.parametrize("method", METHODS)
def test_the_number_of_processes_changes_nothing(method: str, tmp_path: Path) -> None:
    summaries = [
        start(tiny(f"method={method}", *loop(processes), "cohort.size=4"), tmp_path / str(processes))
        for processes in (1, 2, 3)
    ]
    assert len({result(summary) for summary in summaries}) == 1


def test_how_often_checkpoints_are_written_changes_nothing(tmp_path: Path) -> None:
    ends = {
        result(start(tiny("method=scaffold", f"checkpoint.every={every}"), tmp_path / str(every)))
        for every in (1, 3, 100)
    }
    assert len(ends) == 1


def test_evaluation_changes_no_model_and_the_last_round_is_always_scored(tmp_path: Path) -> None:
    often, rarely = (start(tiny(f"evaluate.every={n}"), tmp_path / str(n)) for n in (1, 3))
    assert often["params_sha256"] == rarely["params_sha256"]
    rows = read_rows(tmp_path / "3" / "metrics.jsonl")
    assert ["accuracy" in row for row in rows] == [False, False, True, True]


def test_the_hash_seed_of_python_changes_nothing(tmp_path: Path) -> None:
    experiment = write_tiny(tmp_path, "method=scaffold", *loop(2))
    here = start(load_experiment(experiment), tmp_path / "here")
    processes = [
        spawn("run", experiment, "--out", tmp_path / seed, "--json", env={"PYTHONHASHSEED": seed})
        for seed in ("1", "4242")
    ]
    for process in processes:
        code, out, err = finish(process)
        assert (code, err) == (0, "")
        assert result(read_strictly(out)) == result(here)


@pytest.mark.faults
@pytest.mark.parametrize("method", METHODS)
def test_processes_and_hash_seeds_change_nothing(method: str, tmp_path: Path) -> None:
    ends = set()
    for repeat in range(5):
        for count in (1, 2, 4):
            experiment = write_tiny(tmp_path, f"method={method}", *loop(count), "cohort.size=4")
            folder = tmp_path / f"{repeat}-{count}"
            process = spawn(
                "run", experiment, "--out", folder, env={"PYTHONHASHSEED": str(97 * repeat + count)}
            )
            assert finish(process).code == 0
            ends.add(result(read_summary(folder)))
    assert len(ends) == 1


def test_from_python_the_same_settings_lead_to_the_same_end(tmp_path: Path) -> None:
    summary = start(tiny("method=scaffold", "seed=3", "local.momentum=0.5", *loop(1)), tmp_path / "run")
    federation = split(load_data("digits", imbalance=10.0), "dirichlet", clients=4, alpha=0.5, seed=3)
    outcome = simulate(
        federation,
        "scaffold",
        MODELS.build("mlp", {"hidden": [8]})(federation.input_shape, len(federation.classes)),
        rounds=4,
        seed=3,
        cohort=2,
        local=Local(batch_size=64, momentum=0.5),
        engine=EngineSettings("loop", processes=1),
        draw_parameters=True,
    )
    for key in ("method", "params_sha256", "accuracy", "per_class_recall", "best", "engine"):
        assert outcome[key] == summary[key], key
    assert outcome.rows == read_rows(tmp_path / "run" / "metrics.jsonl")
    assert outcome.summary.keys() >= NEEDED


def test_from_python_the_defaults_are_those_of_the_config(tmp_path: Path) -> None:
    summary = start(tiny("rounds=2", "cohort={}", "local={}", "model={}"), tmp_path / "run")
    federation = split(load_data("digits", imbalance=10.0), clients=4, alpha=0.5)
    assert simulate(federation, rounds=2)["params_sha256"] == summary["params_sha256"]


def test_own_data_and_an_own_model_run_and_resume(tmp_path: Path) -> None:
    federation = load_federation(tiny())
    model = MODELS.build("mlp", {"hidden": [5]})(federation.input_shape, 10)
    summary = start(tiny(), tmp_path / "run", federation=federation, model=model)
    (tmp_path / "run" / "checkpoints" / "round-00000004.json").unlink()
    assert result(resume(tmp_path / "run", federation=federation, model=model)) == result(summary)
    for other, words in (
        ({"federation": replace(federation, classes=tuple("abcdefghij"))}, "the data has changed"),
        ({"model": MODELS.build("mlp", {"hidden": [6]})(federation.input_shape, 10)}, "the model has changed"),
    ):  # fmt: skip
        given: dict[str, Any] = {"federation": federation, "model": model} | other
        with pytest.raises(ConfigError, match=words):
            resume(tmp_path / "run", **given)


def test_a_rate_that_explodes_is_named_and_leaves_the_model_as_it_was(tmp_path: Path) -> None:
    experiment = tiny("local.lr=1e30", "rounds=3")
    with pytest.raises(RunError, match="all 3 rounds were skipped"):
        start(experiment, tmp_path / "run")
    rows = read_rows(tmp_path / "run" / "metrics.jsonl")
    first, last = assemble(experiment).open(), CheckpointStore(tmp_path / "run" / "checkpoints").load()
    assert last is not None
    assert digest({"params": last.server["params"]}) == digest({"params": first.params})
    assert len(rows) == 3
    for row in rows:
        assert row["skipped"]
        assert row["loss"] is None
        assert len({bad["client"] for bad in row["rejected"]} & {0, 1, 2, 3}) == 2
        assert all(bad["reason"] for bad in row["rejected"])
    read_strictly((tmp_path / "run" / "metrics.jsonl").read_text().splitlines()[0])


def test_one_bit_of_the_data_changes_its_fingerprint() -> None:
    federation = load_federation(tiny())
    before = fingerprint(federation)
    assert fingerprint(load_federation(tiny())) == before
    x = federation.train.x.clone()
    x.view(-1)[0] += 1
    others = [
        replace(federation, train=federation.train._replace(x=x)),
        replace(federation, test=federation.test._replace(y=federation.test.y.flip(0))),
        replace(federation, clients=federation.clients[::-1]),
        replace(federation, classes=federation.classes[::-1]),
        replace(federation, scaling=federation.scaling._replace(shift=federation.scaling.shift + 1)),
    ]
    assert len({before, *map(fingerprint, others)}) == 6


def test_the_watcher_sees_every_round(tmp_path: Path) -> None:
    seen: list[tuple[int, int]] = []
    start(tiny(), tmp_path / "run", [Hearing(lambda row, rounds: seen.append((row["round"], rounds)))])
    assert seen == [(0, 4), (1, 4), (2, 4), (3, 4)]


def test_a_folder_name_may_be_anything_a_file_system_takes(tmp_path: Path) -> None:
    for name in ("with space", "-dash", "ünïcode", "quote'\"", "dollar$(x)", "\u202ertl"):
        summary = start(tiny("rounds=1"), tmp_path / name)
        assert result(resume(tmp_path / name)) == result(summary)
    assert RunFolder(tmp_path / "with space").resume_hint().endswith("with space'`")
