"""What `ls runs` and `diff` tell about runs that are done, at work, stopped, failed or damaged."""

from __future__ import annotations

import io
import json
import os
import shutil
import time
from pathlib import Path
from typing import Any

import pytest
from rich.console import Console
from runs import assert_refused, call, finish, read_strictly, reseal, spawn, tiny

from counterpoise.cli.listing import print_runs
from counterpoise.errors import DataError
from counterpoise.results.difference import difference
from counterpoise.results.progress import is_locked, read_progress
from counterpoise.results.results import read_result
from counterpoise.run.runner import start
from counterpoise.run.store.folder import RunFolder, read_rows
from counterpoise.system.toml import write_toml


@pytest.fixture(scope="module")
def sweep(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Four runs: done twice, done with another rate, stopped after two rounds of four."""
    base = tmp_path_factory.mktemp("sweep") / "runs"
    for name, assignments in {"a": [], "b": [], "c": ["local.lr=0.05"], "d": []}.items():
        start(tiny(*assignments), base / name)
    stop(base / "d", 2)
    return base


@pytest.fixture
def runs(sweep: Path, tmp_path: Path) -> Path:
    """A copy of them that a test may change."""
    return shutil.copytree(sweep, tmp_path / "runs")


def stop(path: Path, rounds: int) -> None:
    """As if a run had been killed after so many rounds."""
    folder = RunFolder(path)
    folder.summary.unlink()
    for log in (folder.metrics, folder.timing):
        log.write_bytes(b"".join(log.read_bytes().splitlines(keepends=True)[:rounds]))


def edit(path: Path, **changes: Any) -> None:
    path.write_text(json.dumps({**json.loads(path.read_text()), **changes}))


def listed(folder: Path) -> dict[str, Any]:
    code, out, err = call("ls", "runs", folder, "--json")
    assert (code, err) == (0, "")
    return {Path(run["folder"]).name: run for run in read_strictly(out)}


def test_runs_are_listed_with_state_scores_and_problem(runs: Path) -> None:
    code, out, err = call("ls", "runs", runs)
    assert (code, err) == (0, "")
    lines = out.splitlines()
    headers = ["run", "method", "problem", "seed", "state", "accuracy", "balanced", "tail", "when"]
    assert lines[0].split() == headers
    assert len(lines) == 5
    assert "digits, imbalance 10, dirichlet(alpha=0.5), 4 clients" in lines[1]
    assert "  done  " in lines[1]
    assert "stopped, round 2 of 4" in lines[4]
    summary = json.loads((runs / "a" / "summary.json").read_text())
    assert f"{summary['accuracy']:.1%}" in lines[1]
    assert f"  {summary['balanced_accuracy']:.1%}  " in lines[1]


def test_runs_as_json_are_plain(runs: Path) -> None:
    found = listed(runs)
    assert list(found) == ["a", "b", "c", "d"]
    assert [run["state"] for run in found.values()] == ["done", "done", "done", "stopped"]
    assert (found["d"]["round"], found["d"]["rounds"]) == (2, 4)
    rows = read_rows(runs / "d" / "metrics.jsonl")
    assert found["d"]["scores"]["accuracy"] == rows[-1]["accuracy"]


def run_of(folder: Path, method: str, seed: int, **data: Any) -> None:
    """A run that has not begun, of this data."""
    RunFolder(folder).checkpoints.mkdir(parents=True)
    tables = tiny(f"method={method}", f"seed={seed}").tables()
    tables["data"] |= data
    (folder / "config.toml").write_text(write_toml(tables))


@pytest.fixture
def mixed(tmp_path: Path) -> Path:
    """Runs whose folders are in no order: two data sets, one of them a file, two methods, two seeds."""
    own = {"name": "table", "path": "/data/ward/patients.csv", "label": "y"}
    for number, (method, seed, data) in enumerate(
        [("fedprox", 1, {}), ("fedavg", 1, own), ("fedavg", 1, {}), ("fedprox", 0, {}), ("fedavg", 0, own)]
    ):
        run_of(tmp_path / "mixed" / str(number), method, seed, **data)
    return tmp_path / "mixed"


def order(folder: Path, *options: str) -> list[str]:
    """Names of the runs from top to bottom."""
    lines = call("ls", "runs", folder, *options).out.splitlines()[1:]
    return [Path(line.split()[0]).name for line in lines]


def test_runs_of_one_data_set_and_method_stand_together_by_seed(mixed: Path) -> None:
    assert order(mixed) == ["2", "3", "0", "4", "1"]
    assert list(listed(mixed)) == ["0", "1", "2", "3", "4"]  # as scripts know it


def test_a_run_on_a_file_names_the_file(mixed: Path) -> None:
    lines = call("ls", "runs", mixed).out.splitlines()
    assert sum("patients.csv, imbalance 10" in line for line in lines) == 2
    assert [run["data"] for run in listed(mixed).values()] == [
        "digits", "patients.csv", "digits", "digits", "patients.csv"
    ]  # fmt: skip
    assert listed(mixed)["1"]["problem"].startswith("table, imbalance 10")


def test_runs_are_sorted_by_a_key(runs: Path, mixed: Path) -> None:
    assert order(mixed, "--sort", "run") == ["0", "1", "2", "3", "4"]
    assert order(mixed, "--sort", "seed") == ["3", "4", "2", "0", "1"]
    assert order(mixed, "--sort", "method") == ["2", "4", "1", "3", "0"]
    scores = {name: run["scores"]["balanced_accuracy"] for name, run in listed(runs).items()}
    best_first = sorted(scores, key=lambda name: (-scores[name], name))
    assert len({*scores.values()}) > 1
    assert order(runs, "--sort", "balanced_accuracy") == best_first
    run_of(runs / "0", "fedavg", 0)
    assert order(runs, "--sort", "accuracy")[-1] == "0"  # no score yet
    told = read_strictly(call("ls", "runs", mixed, "--json", "--sort", "seed").out)
    assert [Path(run["folder"]).name for run in told] == ["3", "4", "2", "0", "1"]


def test_a_wrong_key_is_answered_with_the_legal_ones(runs: Path) -> None:
    refused = call("ls", "runs", runs, "--sort", "balanced")
    assert_refused(refused, 2, "--sort 'balanced': no such key", "did you mean 'balanced_accuracy'?")
    assert_refused(call("ls", "methods", "--sort", "seed"), 2, "--sort 'seed' goes only with `ls runs`")


@pytest.mark.parametrize("width", [80, 100, 120, 400])
def test_runs_fit_the_terminal(runs: Path, width: int) -> None:
    run_of(runs / "e", "fedcm", 0, name="table", path="patients-of-all-hospitals-2024.csv", label="y")
    console = Console(file=io.StringIO(), width=width, force_terminal=True, color_system=None)
    print_runs([read_progress(path) for path in sorted(runs.iterdir())], console)
    lines = console.file.getvalue().splitlines()  # type: ignore[attr-defined]
    assert len(lines) == 6
    assert all(len(line.rstrip()) <= width for line in lines)
    assert {"run", "method", "seed", "state", "balanced"} <= {*lines[0].split()}
    assert "data" in lines[0] or "problem" in lines[0]
    assert all("fedavg" in line and "digits" in line for line in lines[1:5])
    assert "024.csv" in lines[5]
    assert ("stopped 2/4" if width < 150 else "stopped, round 2 of 4") in lines[4]


def test_a_run_is_running_while_its_lock_is_held_and_looking_takes_no_lock(runs: Path) -> None:
    folder = RunFolder(runs / "d")
    with folder.locked():
        assert is_locked(folder.path)
        assert listed(runs)["d"]["state"] == "running"
        assert "running, round 2 of 4" in call("ls", "runs", runs).out
    assert not is_locked(folder.path)
    assert listed(runs)["d"]["state"] == "stopped"


def test_a_failed_run_says_why(runs: Path) -> None:
    (runs / "d" / "failure.json").write_text('{"error": "the disk [is] full"}')
    _, out, _ = call("ls", "runs", runs)
    assert "failed, round 2 of 4" in out
    assert out.splitlines()[-1] == f"{runs / 'd'}: the disk [is] full"


@pytest.mark.parametrize(
    ("name", "content"),
    [
        ("config.toml", b"rounds ="),
        ("config.toml", b'method = "fedavg"\nseed = 0\n'),
        ("config.toml", b'method = "nonsense"\nseed = 0\nrounds = 4\n'),
        ("summary.json", b"{"),
        ("metrics.jsonl", b"3\n"),
        ("timing.jsonl", b"{}\n"),
    ],
)
def test_one_damaged_run_does_not_hide_the_others(runs: Path, name: str, content: bytes) -> None:
    (runs / "a" / name).write_bytes(content)
    found = listed(runs)
    assert [run["state"] for run in found.values()] == ["unreadable", "done", "done", "stopped"]
    assert found["a"]["trouble"]
    assert "unreadable" in call("ls", "runs", runs).out


def test_a_row_whose_end_is_missing_is_no_row_yet(runs: Path) -> None:
    log = runs / "d" / "metrics.jsonl"
    before = read_rows(log)
    line = log.read_bytes().splitlines()[-1]
    for length in (1, len(line) // 2, len(line)):
        log.write_bytes(b"".join(json.dumps(row).encode() + b"\n" for row in before) + line[:length])
        assert read_rows(log) == before
        assert listed(runs)["d"]["round"] == 2
    log.write_bytes(line[:9] + b"\n")
    with pytest.raises(DataError, match="damaged"):
        read_rows(log)


def test_runs_are_looked_for_in_runs(runs: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(runs.parent)
    assert call("ls", "runs").out.count("fedavg") == 4


def test_where_there_is_no_run_the_list_is_empty(tmp_path: Path) -> None:
    assert call("ls", "runs", tmp_path) == (0, f"no run in {tmp_path}\n", "")
    assert call("ls", "runs", tmp_path, "--json").out == "[]\n"
    assert_refused(call("ls", "runs", tmp_path / "none"), 2, "is not a folder")


def test_ls_takes_a_folder_with_runs_alone_and_gives_rules_as_json(tmp_path: Path) -> None:
    assert_refused(call("ls", "methods", tmp_path), 2, "ls runs")
    rules = read_strictly(call("ls", "methods", "--json").out)
    assert rules["methods"].keys() >= {"fedavg", "scaffold"}


@pytest.mark.parametrize("arguments", [("ls", "methods"), ("ls",), ("ls", "methods", "--json"), ("--help",)])
def test_a_reader_that_leaves_after_a_line_is_no_error(arguments: tuple[str, ...]) -> None:
    process = spawn(*arguments)
    assert process.stdout is not None
    process.stdout.close()
    process.stdout = None
    assert finish(process)[::2] == (0, "")


def difference_of(one: Path, other: Path) -> dict[str, Any]:
    code, out, err = call("diff", one, other, "--json")
    assert (code, err) == (0, "")
    return dict(read_strictly(out))


def test_a_run_done_twice_differs_in_nothing(runs: Path) -> None:
    found = difference_of(runs / "a", runs / "b")
    assert found["words"] == "Same config: same results in all 4 rounds, and the same model."
    assert found["config"] == found["versions"] == found["machine"] == found["data"] == {}
    assert (found["rounds"], found["rounds_alike"], found["same_model"]) == ([4, 4], 4, True)
    assert all(one == other for one, other in found["last"].values())


def test_a_value_that_differs_is_named_with_both_values(runs: Path) -> None:
    found = difference_of(runs / "a", runs / "c")
    assert found["words"] == "Other local.lr: results differ from round 1 on."
    assert found["config"] == {"local.lr": [0.1, 0.05]}
    assert (found["rounds_alike"], found["same_model"]) == (0, False)
    code, out, err = call("diff", runs / "a", runs / "c")
    assert (code, err) == (0, "")
    assert out.splitlines()[0] == found["words"]
    assert any(line.split() == ["local.lr", "0.1", "0.05"] for line in out.splitlines())
    last, best = (found[key]["accuracy"] for key in ("last", "best"))
    change = f"{100 * (last[1] - last[0]):+.1f}"
    assert f"{last[0]:.1%} (best {best[0]:.1%})" in out
    assert any("accuracy" in line and line.endswith(change) for line in map(str.rstrip, out.splitlines()))


def test_best_and_last_are_those_of_the_summaries(runs: Path) -> None:
    found = difference_of(runs / "a", runs / "c")
    for place, name in enumerate("ac"):
        summary = json.loads((runs / name / "summary.json").read_text())
        assert {key: pair[place] for key, pair in found["best"].items()} == summary["best"]
        assert all(pair[place] == summary[key] for key, pair in found["last"].items())


def test_unfinished_runs_are_compared_as_far_as_both_got(runs: Path) -> None:
    found = difference_of(runs / "a", runs / "d")
    assert found["words"] == "Same config: same results as far as both got, which is 2 rounds."
    assert (found["rounds"], found["same_model"]) == ([4, 2], None)
    rows = read_rows(runs / "a" / "metrics.jsonl")
    assert found["scored_round"] == 2
    assert found["last"]["accuracy"] == [rows[1]["accuracy"]] * 2
    assert found["best"]["accuracy"] == [max(row["accuracy"] for row in rows[:2])] * 2
    out = call("diff", runs / "a", runs / "d").out
    assert any(line.split() == ["scores", "of", "round", "2", "2"] for line in out.splitlines())
    (runs / "d" / "metrics.jsonl").unlink()
    assert "no two results to compare yet" in difference_of(runs / "a", runs / "d")["words"]
    assert call("diff", runs / "a", runs / "d").code == 0


def test_without_a_round_that_both_evaluated_there_are_no_scores_to_compare(runs: Path) -> None:
    log = runs / "d" / "metrics.jsonl"
    rows = [{key: value for key, value in row.items() if key != "accuracy"} for row in read_rows(log)]
    log.write_text("".join(json.dumps(row) + "\n" for row in rows))
    found = difference_of(runs / "a", runs / "d")
    assert found["scored_round"] is None
    assert found["last"]["accuracy"] == [None, None]
    assert "none that both evaluated" in call("diff", runs / "a", runs / "d").out


def test_versions_machine_and_data_are_told(runs: Path) -> None:
    record = runs / "b" / "record.json"
    old = json.loads(record.read_text())
    edit(
        record,
        versions=old["versions"] | {"torch": "1.0"},
        machine=old["machine"] | {"cores": 999},
        data_sha256="0" * 64,
        clients=[*old["clients"], [7] * 10],
    )
    rows = read_rows(runs / "b" / "metrics.jsonl")
    rows[2]["loss"] += 1e-9
    (runs / "b" / "metrics.jsonl").write_text("".join(json.dumps(row) + "\n" for row in rows))
    reseal(runs / "b")
    found = difference_of(runs / "a", runs / "b")
    assert found["words"] == (
        "Same config, other torch version, other machine, other data or partition: results differ from round 3 on."
    )
    assert found["versions"] == {"torch": [old["versions"]["torch"], "1.0"]}
    assert found["machine"]["cores"][1] == 999
    assert found["data"]["clients"] == [4, 5]
    assert found["data"]["samples"][1] - found["data"]["samples"][0] == 70
    assert found["data"]["sha256"][1] == "0" * 64
    assert call("diff", runs / "a", runs / "b").out.startswith(found["words"])


def test_how_a_run_is_executed_is_told_apart_from_what_it_is(runs: Path) -> None:
    one, other = read_result(runs / "a"), read_result(runs / "b")
    engine = {"engine": other.config["engine"] | {"processes": 7}}
    found = difference(one, other._replace(config=other.config | engine))
    assert found.words.startswith("Same experiment, executed in another way (engine.processes): same results")


def test_of_many_keys_the_first_are_named(runs: Path) -> None:
    one, other = read_result(runs / "a"), read_result(runs / "b")
    local = dict.fromkeys(("lr", "batch_size", "epochs", "momentum"), 77)
    found = difference(one, other._replace(config=other.config | {"local": other.config["local"] | local}))
    assert found.words.startswith("Config differs in local.lr, local.batch_size, local.epochs and 1 more: ")


def test_a_run_without_a_record_is_compared_all_the_same(runs: Path) -> None:
    (runs / "b" / "record.json").unlink()
    found = difference_of(runs / "a", runs / "b")
    assert found["words"].startswith(
        "Same config, versions, machine and data not known of both: same results"
    )
    assert found["versions"] == {}


def test_long_values_are_shown_where_they_differ(runs: Path) -> None:
    record = runs / "b" / "record.json"
    data = json.loads(record.read_text())["data"]
    edit(record, data=data | {"notes": [*data["notes"], "x" * 200 + "needle" + "y" * 200]})
    edit(
        runs / "a" / "record.json", data=data | {"notes": [*data["notes"], "x" * 200 + "pebble" + "y" * 200]}
    )
    for name in "ab":
        reseal(runs / name)
    out = call("diff", runs / "a", runs / "b").out
    assert "needle" in out
    assert "pebble" in out
    assert max(map(len, out.splitlines())) < 400


def test_folders_of_many_runs_and_of_none_are_refused(runs: Path, tmp_path: Path) -> None:
    assert_refused(call("diff", runs, runs), 2, "holds 4 runs", "the folder of one run", str(runs / "a"))
    assert_refused(call("diff", runs / "a", runs), 2, "holds 4 runs")
    (tmp_path / "empty").mkdir()
    assert_refused(call("diff", runs / "a", tmp_path / "empty"), 2, "holds no run")
    assert_refused(call("diff", runs / "a", tmp_path / "none"), 2, "is not a folder")
    (runs / "a" / "summary.json").write_text("{")
    assert_refused(call("diff", runs / "a", runs / "b"), 3, "summary.json is damaged")


def test_the_pace_is_that_of_the_last_ten_rounds(runs: Path) -> None:
    folder = RunFolder(runs / "d")
    folder.timing.write_text(
        "".join(json.dumps({"round": k, "seconds": 9.0 if k < 2 else 0.5}) + "\n" for k in range(12))
    )
    found = read_progress(folder.path)
    assert found.pace == pytest.approx(2.0)
    assert found.left == pytest.approx((4 - 2) / 2.0)


def test_when_a_run_last_wrote_is_told(runs: Path) -> None:
    for file in (runs / "a").iterdir():
        os.utime(file, (0, 86400 * 365))
    assert listed(runs)["a"]["changed"][:7] in ("1971-01", "1970-12")
    assert abs(read_progress(runs / "d").changed - time.time()) < 600
