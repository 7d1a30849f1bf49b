"""kill -9, Ctrl-C and a polite kill at any moment: the same command goes on, and ends with the same table."""

from __future__ import annotations

import functools
import os
import random
import signal
import subprocess
import time
from pathlib import Path
from typing import Any

import pytest
from runs import Finished, finish, spawn, wait_until
from sweeps import ends_of, run_here, table_of, tiny_sweep, write_tiny_sweep

STOPPED = "error: stopped; the same command continues where it stopped\n"
HELD = {"data": {"name": "digits", "imbalance": 10.0, "validation": 0.2}, "checkpoint": {"every": 2}}
SHORT: dict[str, Any] = {
    "methods": ["scaffold", ["fedavgm", "balanced_softmax"]],
    "seeds": 1,
    "base": HELD | {"rounds": 12},
    "tune": {"grid": {"local.lr": [0.05, 0.2]}, "rounds": 3},
}
LONG = SHORT | {"seeds": 4, "base": HELD | {"rounds": 30}}


def rounds_done(out: Path) -> int:
    return sum(path.read_bytes().count(b"\n") for path in out.rglob("metrics.jsonl"))


def launch(sweep: Path, out: Path, **options: Any) -> subprocess.Popen[str]:
    return spawn("compare", sweep, "--out", out, "--processes", 2, **options)


def kill_somewhere(process: subprocess.Popen[str], out: Path, draw: random.Random) -> None:
    """kill -9 while it starts, or some rounds further on."""
    if draw.random() < 0.2:
        time.sleep(draw.uniform(0, 4))
    else:
        goal = rounds_done(out) + draw.randrange(1, 15)
        wait_until(lambda: rounds_done(out) >= goal or process.poll() is not None, "some rounds")
    process.kill()
    process.communicate()


def check_killed(tmp_path: Path, tables: dict[str, Any], kills: int, draw: random.Random) -> int:
    """Whether a sweep killed so often ends as an undisturbed one; how many of the kills came in time."""
    sweep, out = write_tiny_sweep(tmp_path, **tables), tmp_path / "killed"
    run_here(tiny_sweep(**tables), tmp_path / "undisturbed")
    in_time = 0
    for _ in range(kills):
        kill_somewhere(launch(sweep, out), out, draw)
        in_time += not (out / "report.html").exists()
    last = finish(launch(sweep, out))
    assert (last.code, last.err) == (0, "")
    assert ends_of(out) == ends_of(tmp_path / "undisturbed")
    assert table_of(out) == table_of(tmp_path / "undisturbed")
    assert (out / "tuning.json").read_text() == (tmp_path / "undisturbed" / "tuning.json").read_text()
    assert not list(out.rglob(".partial-*"))
    return in_time


def test_a_killed_sweep_ends_with_the_same_table(tmp_path: Path) -> None:
    check_killed(tmp_path, SHORT, 1, random.Random(1))


@pytest.mark.faults
def test_a_sweep_killed_ten_times_ends_with_the_same_table(tmp_path: Path) -> None:
    assert check_killed(tmp_path, LONG, 10, random.Random(0)) >= 8


def workers_of(pid: int) -> list[int]:
    return [int(child) for child in Path(f"/proc/{pid}/task/{pid}/children").read_text().split()]


def alive(pid: int) -> bool:
    try:
        return Path(f"/proc/{pid}/stat").read_text().rsplit(")", 1)[1].split()[0] != "Z"
    except OSError:
        return False


def check_stop(tmp_path: Path, send: Any, number: signal.Signals) -> Finished:
    """Stop a sweep in the middle of its runs; no worker may outlive it."""
    sweep = write_tiny_sweep(tmp_path, base={"rounds": 100_000})
    # A shell that starts tests in the background has them ignore Ctrl-C, and so would the sweep.
    hear = functools.partial(signal.signal, signal.SIGINT, signal.SIG_DFL)
    process = launch(sweep, tmp_path / "out", start_new_session=True, preexec_fn=hear)
    wait_until(lambda: rounds_done(tmp_path / "out") > 2, "some rounds")
    workers = workers_of(process.pid)
    assert len(workers) == 2
    send(process.pid, number)
    stopped = finish(process)
    wait_until(lambda: not any(map(alive, workers)), "the end of the workers")
    return stopped


def test_ctrl_c_says_that_the_same_command_goes_on(tmp_path: Path) -> None:
    stopped = check_stop(tmp_path, os.killpg, signal.SIGINT)
    assert (stopped.code, stopped.err) == (4, STOPPED)


@pytest.mark.faults
@pytest.mark.parametrize("send", [os.kill, os.killpg], ids=["one", "all"])
def test_a_polite_kill_says_that_the_same_command_goes_on(send: Any, tmp_path: Path) -> None:
    stopped = check_stop(tmp_path, send, signal.SIGTERM)
    assert (stopped.code, stopped.err) == (4, STOPPED)


@pytest.mark.faults
def test_no_worker_outlives_a_killed_sweep(tmp_path: Path) -> None:
    assert check_stop(tmp_path, os.kill, signal.SIGKILL).code == -signal.SIGKILL
