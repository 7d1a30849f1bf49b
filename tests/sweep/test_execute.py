"""Executing a sweep: what is done is skipped, what was stopped goes on, what fails is told, and the rest finishes."""

from __future__ import annotations

import contextlib
import io
import json
import os
import re
import signal
from contextlib import closing
from pathlib import Path
from typing import Any

import pytest
from runs import TINY, assert_refused, call, read_strictly
from sweeps import METHODS, ends_of, run_here, table_of, tiny_sweep, write_tiny_sweep

from counterpoise.cli.progress import RunsBar
from counterpoise.data.dataset import Dataset
from counterpoise.data.federation import Federation
from counterpoise.errors import ConfigError
from counterpoise.run.assemble import load_dataset, load_federation
from counterpoise.run.config.experiment import Experiment, load_experiment
from counterpoise.run.config.tables import DataTable
from counterpoise.run.runner import resume
from counterpoise.run.store.folder import RunFolder
from counterpoise.sweep import execute
from counterpoise.sweep.execute import run_one
from counterpoise.sweep.jobs import expand
from counterpoise.sweep.orders import group, order
from counterpoise.sweep.run import Execution, Tally, run_jobs, run_sweep
from counterpoise.sweep.workers import WorkerPool

# Legal by every rule that can be checked without the data: 489 samples cannot be cut into so many clients.
FAILING = {"name": "too many", "partition": {"name": "dirichlet", "clients": 100_000}}


def test_a_sweep_leaves_runs_tables_and_a_report(tmp_path: Path) -> None:
    finished = run_here(tiny_sweep(), tmp_path)
    assert finished.failures == {}
    assert {path.name for path in (tmp_path / "runs").iterdir()} == {job.name for job in finished.jobs}
    assert {"sweep.toml", "table.md", "table.tex", "table.csv", "table.json", "report.html"} <= {
        path.name for path in tmp_path.iterdir()
    }
    assert finished.report == tmp_path / "report.html"
    assert [(row.method, row.seeds) for row in finished.comparison.rows] == [
        ("fedavg", (0, 1)),
        ("fedavg+balanced_softmax", (0, 1)),
    ]


def test_what_is_done_is_skipped_and_what_was_stopped_goes_on(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    run_here(tiny_sweep(), tmp_path)
    table, ends = table_of(tmp_path), ends_of(tmp_path)
    stopped = expand(tiny_sweep())[1]
    (stopped.path(tmp_path) / "summary.json").unlink()
    worked: list[str] = []
    monkeypatch.setattr(execute, "start", lambda *_, **__: pytest.fail("nothing is to be started"))

    def go_on(path: Path, *given: Any, **named: Any) -> None:
        worked.append(path.name)
        resume(path, *given, **named)

    monkeypatch.setattr(execute, "resume", go_on)
    run_here(tiny_sweep(), tmp_path)
    assert worked == [stopped.name]
    assert (table_of(tmp_path), ends_of(tmp_path)) == (table, ends)


def test_a_run_that_was_killed_before_its_first_record_starts_again(tmp_path: Path) -> None:
    job = expand(tiny_sweep())[0]
    folder = RunFolder(job.path(tmp_path))
    folder.create()
    folder.config.write_text("rounds = 2\n")
    run_here(tiny_sweep(), tmp_path)
    assert load_experiment(folder.config).local.batching == "pad"  # settled, as a run leaves it


def test_a_longer_sweep_keeps_what_is_there(tmp_path: Path) -> None:
    run_here(tiny_sweep(seeds=1), tmp_path)
    before = ends_of(tmp_path)
    finished = run_here(tiny_sweep(seeds=2, methods=[*METHODS, "fedcm"]), tmp_path)
    assert len(before) == 2
    assert len(ends_of(tmp_path)) == 6
    assert before.items() <= ends_of(tmp_path).items()
    assert len(finished.comparison.rows) == 3


def test_a_changed_base_is_refused_and_nothing_is_written_over(tmp_path: Path) -> None:
    path = write_tiny_sweep(tmp_path, seeds=1)
    command = ("compare", path, "--processes", 1, "--out", tmp_path / "out")
    assert call(*command).code == 0
    before = ends_of(tmp_path / "out")
    assert_refused(
        call(*command, "base.local.lr=0.7"), 2, "local.lr was 0.1 and is 0.7", "another with --out"
    )
    assert ends_of(tmp_path / "out") == before
    assert call(*command).code == 0


def test_a_run_that_fails_is_told_and_the_rest_finishes(tmp_path: Path) -> None:
    problems = [{"name": "tiny"}, FAILING]
    path, out = write_tiny_sweep(tmp_path, problems=problems, seeds=1), tmp_path / "out"
    command = ("compare", path, "--processes", 1, "--out", out)
    code, said, err = call(*command)
    failed = out / "runs" / "fedavg-too-many-seed0"
    assert code == 4
    assert len(err.splitlines()) == 1
    assert err.startswith(f"error: failed: 2 runs, the first {failed}: ")
    assert err.endswith("; the same command tries again\n")
    error = json.loads((failed / "failure.json").read_text())["error"]
    assert error in err
    assert "\n" not in error
    assert f"Left out: {failed}: {error}" in " ".join(said.split())
    assert len(ends_of(out)) == 2
    assert "report.html" in said
    assert call(*command).code == 4  # tried again


def test_a_failure_is_forgotten_when_the_run_goes_well(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def lack_memory(*_: Any, **__: Any) -> None:
        raise MemoryError("12 GB\nwanted")

    sweep = tiny_sweep(seeds=1)
    with monkeypatch.context() as broken:
        broken.setattr(execute, "start", lack_memory)
        failures = run_here(sweep, tmp_path).failures
    assert set(failures.values()) == {"MemoryError: 12 GB wanted"}
    assert run_here(sweep, tmp_path).failures == {}
    assert not list(tmp_path.rglob("failure.json"))
    assert len(ends_of(tmp_path)) == 2


def test_two_sweeps_do_not_share_a_folder(tmp_path: Path) -> None:
    path = write_tiny_sweep(tmp_path)
    (tmp_path / "out").mkdir()
    with RunFolder(tmp_path / "out").locked():
        refused = call("compare", path, "--processes", 1, "--out", tmp_path / "out")
    assert_refused(refused, 2, "is being written by another process")


def test_a_folder_that_cannot_be_made_is_refused(tmp_path: Path) -> None:
    path = write_tiny_sweep(tmp_path)
    assert_refused(call("compare", path, "--out", path / "out"), 2, "cannot be created")


def test_watchers_see_runs_begin_and_end(tmp_path: Path) -> None:
    seen: list[Tally] = []
    run_sweep(tiny_sweep(seeds=1), tmp_path, Execution(), seen.append)
    runs = [(tally.done, tally.running, tally.failed) for tally in seen if tally.what == "runs"]
    assert runs == [(0, 0, 0), (0, 1, 0), (1, 0, 0), (1, 1, 0), (2, 0, 0)]


def test_a_terminal_shows_runs_done_running_failed_and_the_time_left(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("FORCE_COLOR", "1")
    monkeypatch.setenv("COLUMNS", "120")
    shown = io.StringIO()
    with contextlib.redirect_stderr(shown), RunsBar() as bar:
        bar.show(Tally("tuning", 0, 0))
        bar.show(Tally("runs", 10, 3, running=2, failed=1))
    text = re.sub(r"\x1b\[[0-9;?]*[A-Za-z]", "", shown.getvalue())
    assert "4/10 2 running 1 failed" in text
    assert re.search(r"left (-|\d)", text)
    assert "tuning" not in text


def test_a_dry_run_tells_what_would_run_and_writes_nothing(tmp_path: Path) -> None:
    path = write_tiny_sweep(tmp_path)
    command = ("compare", path, "--dry-run", "--processes", 2, "--out", tmp_path / "out")
    code, said, err = call(*command)
    assert (code, err) == (0, "")
    assert said.count("to run") == 4
    assert "4 runs, 4 of them to do: about" in said
    assert "in 2 processes" in said
    assert not (tmp_path / "out").exists()
    plan = read_strictly(call(*command, "--json").out)
    assert [run["state"] for run in plan["runs"]] == ["to run"] * 4
    assert plan["seconds"] > 0


def test_the_result_as_json(tmp_path: Path) -> None:
    code, said, err = call("compare", write_tiny_sweep(tmp_path, seeds=1), "--processes", 1, "--json", "--out", tmp_path / "out")  # fmt: skip
    assert (code, err) == (0, "")
    result = read_strictly(said)
    assert result["runs"] == 2
    assert result["failures"] == {}
    assert [row["method"] for row in result["comparison"]["rows"]] == ["fedavg", "fedavg+balanced_softmax"]


def test_methods_of_one_seed_load_their_data_once(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    loads: list[int] = []

    def load(experiment: Experiment, data: Dataset | None) -> Federation:
        loads.append(experiment.seed)
        return load_federation(experiment, data)

    monkeypatch.setattr(execute, "load_federation", load)
    methods = [*METHODS, {"name": "slow", "method": "fedavg", "local": {"lr": 0.01}}]
    run_here(tiny_sweep(methods=methods), tmp_path)
    assert loads == [0, 1]


def test_seeds_share_one_data_set_and_the_next_sweep_reads_it_again(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    loads: list[str] = []

    def load(table: DataTable) -> Dataset:
        loads.append(table.name)
        return load_dataset(table)

    monkeypatch.setattr(execute, "load_dataset", load)
    run_here(tiny_sweep(), tmp_path / "one")
    assert loads == [TINY["data"]["name"]]
    run_here(tiny_sweep(), tmp_path / "other")
    assert len(loads) == 2


def test_workers_stay_for_the_next_jobs(tmp_path: Path) -> None:
    jobs = expand(tiny_sweep())
    with WorkerPool(2) as pool:
        seen = []
        for some in (jobs[:2], jobs[2:]):
            failures, _ = run_jobs("runs", some, tmp_path, Execution("local", 2), lambda tally: None, pool)
            assert not failures
            seen.append({worker._process.pid for worker in pool._all})
        workers = pool._all[:]
    assert seen[0] == seen[1]
    assert len(seen[0]) == 2
    assert all(worker._process.poll() is not None for worker in workers)


def test_a_stop_ends_the_running_and_the_pool_goes_on(tmp_path: Path) -> None:
    long = [order(job, tmp_path, alone=False) for job in expand(tiny_sweep(base={"rounds": 100_000}))]
    short = order(expand(tiny_sweep())[0], tmp_path / "short", alone=False)
    with WorkerPool(1) as pool:
        with closing(execute.share_out(group(long), pool)) as events:
            next(events)
            first = pool._all[0]
        assert first._process.poll() is not None
        assert pool._all == []
        assert [event.error for event in execute.share_out(group([short]), pool)] == [None, None]


def test_orders_hold_what_was_given_and_one_process_beside_others(tmp_path: Path) -> None:
    job = expand(tiny_sweep())[0]
    assert order(job, tmp_path, alone=True).config == TINY | {"rounds": 2, "seed": 0}
    assert order(job, tmp_path, alone=False).config["engine"] == {"processes": 1}
    orders = [order(job, tmp_path, alone=True)] * 3
    assert [one for members in group(orders) for one in members] == orders


def test_a_lost_worker_is_a_failed_run(tmp_path: Path) -> None:
    orders = [
        order(job, tmp_path, alone=False) for job in expand(tiny_sweep(seeds=1, base={"rounds": 100_000}))
    ]
    staff = WorkerPool(1)
    seen = []
    with closing(execute.share_out(group(orders)[:1], staff)) as events:
        seen.append(next(events))
        os.kill(staff._all[0]._process.pid, signal.SIGKILL)
        seen += events
    assert [event.ended for event in seen] == [False, True]
    assert seen[1].error == "the process of this run ended with code -9 (out of memory?)"
    assert json.loads((Path(orders[0].path) / "failure.json").read_text()) == {"error": seen[1].error}


def test_a_bad_folder_is_a_failed_run_and_no_crash(tmp_path: Path) -> None:
    one = order(expand(tiny_sweep())[0], tmp_path, alone=True)
    (tmp_path / "runs").write_text("a file")
    assert "cannot be created" in str(run_one(one)) or "Not a directory" in str(run_one(one))


def test_a_sweep_needs_legal_options(tmp_path: Path) -> None:
    path = write_tiny_sweep(tmp_path)
    assert_refused(call("compare", path, "--on", "moon"), 2, "moon")
    assert_refused(call("compare", path, "--processes", 0), 2, "processes")
    assert_refused(call("compare", tmp_path / "none.toml"), 2, "none.toml")
    with pytest.raises(ConfigError):
        run_here(tiny_sweep(base={"data": {"name": "nothing"}}), tmp_path)
