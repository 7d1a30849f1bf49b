"""One changed digit in a finished run: no reader believes it, and a sweep mends it or says that it cannot."""

from __future__ import annotations

import json
import shutil
from pathlib import Path
from typing import Any

import pytest
from runs import Hearing, assert_refused, call, read_summary, rounds_done, tiny, write_tiny
from sweeps import ends_of, run_here, table_of, tiny_sweep, write_tiny_sweep

from counterpoise.errors import DataError
from counterpoise.results.progress import read_progress
from counterpoise.results.results import read_result, read_results
from counterpoise.run.runner import start
from counterpoise.run.store.folder import RunFolder
from counterpoise.sweep.jobs import expand, is_done, is_over

VICTIM = "fedavg-seed1"


@pytest.fixture(scope="module")
def swept(tmp_path_factory: pytest.TempPathFactory) -> Path:
    out = tmp_path_factory.mktemp("swept") / "out"
    run_here(tiny_sweep(base={"rounds": 6}), out)
    return out


@pytest.fixture
def out(swept: Path, tmp_path: Path) -> Path:
    return shutil.copytree(swept, tmp_path / "out")


def improve(log: Path, row: int = -1) -> None:
    """A row with a better score than it had."""
    rows = [json.loads(line) for line in log.read_bytes().splitlines()]
    rows[row]["accuracy"] = min(rows[row]["accuracy"] + 0.1, 1.0)
    log.write_text("".join(json.dumps(one) + "\n" for one in rows))


def improve_file(path: Path, key: str, value: Any) -> None:
    path.write_text(json.dumps(json.loads(path.read_text()) | {key: value}, indent=2) + "\n")


def test_a_better_score_in_the_last_row_is_believed_by_nobody(out: Path) -> None:
    run = out / "runs" / VICTIM
    improve(run / "metrics.jsonl")
    words = f"{run / 'metrics.jsonl'} has changed since the run finished"
    listed = call("ls", "runs", out)
    assert any(VICTIM in line and " unreadable " in line for line in listed.out.splitlines())
    assert words in listed.out
    assert words in call("watch", out, "--once").out
    assert_refused(call("diff", run, out / "runs" / "fedavg-seed0"), 3, words)
    before = (out / "report.html").read_text()
    assert call("report", out).code == 0
    page = (out / "report.html").read_text()
    assert words in page
    assert words not in before
    assert "fedavg has no finished run of seed 1" in page
    assert [result.path.name for result in read_results([out])].count(VICTIM) == 0


@pytest.mark.parametrize(
    ("name", "key", "value"),
    [("summary.json", "accuracy", 0.99), ("record.json", "parameters", 1), ("summary.json", "seconds", 0)],
)
def test_neither_is_another_number_in_summary_or_record(out: Path, name: str, key: str, value: Any) -> None:
    run = out / "runs" / VICTIM
    improve_file(run / name, key, value)
    with pytest.raises(DataError, match=f"{name} is damaged: its content does not match its SHA-256"):
        read_result(run)
    assert read_progress(run).state == "unreadable"


def test_the_record_and_the_logs_of_another_run_are_not_its_own(out: Path) -> None:
    run, other = out / "runs" / VICTIM, out / "runs" / "fedavg-seed0"
    for name in ("record.json", "metrics.jsonl", "timing.jsonl", "config.toml"):
        kept = (run / name).read_bytes()
        (run / name).write_bytes((other / name).read_bytes())
        with pytest.raises(DataError, match=f"{name} has changed since the run finished"):
            read_result(run)
        (run / name).write_bytes(kept)
    assert read_result(run).has_result


def test_what_may_change_in_a_config_does_no_harm(out: Path) -> None:
    config = out / "runs" / VICTIM / "config.toml"
    text = config.read_text()
    config.write_text(text.replace("max_skipped = 5", "max_skipped = 9").replace("keep = 3", "keep = 4"))
    assert config.read_text() != text
    assert read_result(config.parent).has_result
    config.write_text(text.replace("batch_size = 64", "batch_size = 65"))
    with pytest.raises(DataError, match=r"config\.toml has changed"):
        read_result(config.parent)


def test_a_run_at_work_is_never_taken_for_damaged(tmp_path: Path) -> None:
    """Rows are newer than the last checkpoint, the last line may be half there, and the summary comes last."""
    seen = []
    folder = RunFolder(tmp_path / "run")

    def look(row: Any, rounds: int) -> None:
        content = folder.metrics.read_bytes()
        for length in (len(content), len(content) - 1, len(content) - 30):
            folder.metrics.write_bytes(content[:length])
            seen.append((read_progress(folder.path).state, rounds_done(folder.path)))
        folder.metrics.write_bytes(content)

    start(tiny("rounds=5", "checkpoint.every=3"), folder.path, [Hearing(look)])
    assert seen == [("running", done) for k in range(5) for done in (k + 1, k, k)]
    assert read_progress(folder.path).state == "done"


def test_the_same_sweep_mends_a_run_whose_last_row_was_changed(out: Path, swept: Path) -> None:
    improve(out / "runs" / VICTIM / "metrics.jsonl")
    job = next(job for job in expand(tiny_sweep(base={"rounds": 6})) if job.name == VICTIM)
    assert not is_done(job, out)
    assert not is_over(job, out)
    finished = run_here(tiny_sweep(base={"rounds": 6}), out)
    assert finished.failures == {}
    assert (table_of(out), ends_of(out)) == (table_of(swept), ends_of(swept))


def test_the_same_sweep_mends_a_summary_and_a_record(out: Path, swept: Path) -> None:
    improve_file(out / "runs" / VICTIM / "summary.json", "accuracy", 0.99)
    improve_file(out / "runs" / "fedavg-seed0" / "record.json", "parameters", 1)
    (out / "runs" / "fedavg+balanced_softmax-seed0" / "record.json").unlink()
    assert run_here(tiny_sweep(base={"rounds": 6}), out).failures == {}
    assert (table_of(out), ends_of(out)) == (table_of(swept), ends_of(swept))
    for run in (out / "runs").iterdir():
        mended, was = (read_result(base / "runs" / run.name).record for base in (out, swept))
        assert all(mended[key] == was[key] for key in ("versions", "data", "clients", "parameters"))


@pytest.mark.parametrize("name", ["metrics.jsonl", "config.toml"])
def test_a_run_that_cannot_be_mended_is_named_and_the_others_are_compared(
    out: Path, tmp_path: Path, name: str
) -> None:
    run = out / "runs" / VICTIM
    if name == "metrics.jsonl":
        improve(run / name, row=0)
    else:
        (run / name).write_text("rounds =")
    command = ("compare", write_tiny_sweep(tmp_path, base={"rounds": 6}), "--processes", 1, "--out", out)
    summary = read_summary(run)
    for _ in range(2):
        code, said, err = call(*command)
        assert code == 4
        assert str(run / name) in err.splitlines()[-1]
        assert "Left out: " in said
        table = json.loads((out / "table.json").read_text())
        assert [row["seeds"] for row in table["rows"]] == [[0], [0, 1]]
        assert [Path(one["path"]).name for one in table["failures"]] == [VICTIM]
    assert read_summary(run) == summary


@pytest.mark.parametrize(
    "left",
    ["metrics.jsonl", "timing.jsonl", "record.json", "summary.json", "model.safetensors", "checkpoints"],
)
def test_a_run_that_lost_its_config_is_not_written_over(out: Path, tmp_path: Path, left: str) -> None:
    run = out / "runs" / VICTIM
    for path in run.iterdir():
        if path.name not in (left, "checkpoints"):
            path.unlink()
        elif path.name != left:
            shutil.rmtree(path)
    before = {path: path.read_bytes() for path in run.rglob("*") if path.is_file()}
    named = "checkpoints/round-00000004.json" if left == "checkpoints" else left
    words = f"holds {named} of a run that lost its config.toml; put that back, or name another folder"
    assert_refused(call("run", write_tiny(tmp_path), "--out", run), 2, words)
    assert {path: path.read_bytes() for path in run.rglob("*") if path.is_file()} == before


def test_a_sweep_does_not_write_over_a_run_that_lost_its_config(out: Path) -> None:
    run = out / "runs" / VICTIM
    (run / "config.toml").unlink()
    before = (run / "metrics.jsonl").read_bytes()
    (why,) = run_here(tiny_sweep(base={"rounds": 6}), out).failures.values()
    assert "record.json of a run that lost its config.toml" in why
    assert (run / "metrics.jsonl").read_bytes() == before


def test_a_folder_of_other_files_is_free(tmp_path: Path) -> None:
    folder = tmp_path / "run"
    (folder / "checkpoints").mkdir(parents=True)
    for name in ("notes.txt", "metrics.csv", ".lock"):
        (folder / name).write_text("mine")
    for name in ("metrics.jsonl", "timing.jsonl"):
        (folder / name).touch()
    assert start(tiny("rounds=1"), folder)["rounds"] == 1
    assert (folder / "notes.txt").read_text() == "mine"
