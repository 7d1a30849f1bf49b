"""kill -9, Ctrl-C and rot at any moment: the run that goes on comes to the end of the undisturbed one."""

from __future__ import annotations

import functools
import json
import os
import random
import shutil
import signal
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

import pytest
from runs import finish, read_summary, result, rounds_done, spawn, tiny, wait_until, write_tiny

from counterpoise.run.config.experiment import load_experiment
from counterpoise.run.runner import resume, start
from counterpoise.run.store.folder import RunFolder

METHODS = ("fedavg", "fedavgm", "scaffold")
SHORT = ("rounds=12", "local.epochs=3")
LONG = ("rounds=30", "local.epochs=3")


def alive(pid: int) -> bool:
    """Whether a process runs; one that ended and was not yet buried does not."""
    try:
        return Path(f"/proc/{pid}/stat").read_text().rsplit(")", 1)[1].split()[0] != "Z"
    except OSError:
        return False


def children(pid: int) -> list[int]:
    return [int(child) for child in Path(f"/proc/{pid}/task/{pid}/children").read_text().split()]


def go_on(experiment: Path, folder: Path) -> subprocess.Popen[str]:
    """Resume where there is something to resume, else the run from its start."""
    if RunFolder(folder).holds_run():
        return spawn("resume", folder)
    return spawn("run", experiment, "--out", folder)


def kill_somewhere(process: subprocess.Popen[str], folder: Path, seconds: float, draw: random.Random) -> None:
    """kill -9 while it starts, or at a random moment of rounds that take so many seconds."""
    if draw.random() < 0.15:
        time.sleep(draw.uniform(0, 3))
    else:
        began = rounds_done(folder)
        wait_until(lambda: rounds_done(folder) > began or process.poll() is not None, "a round")
        time.sleep(draw.uniform(0, seconds))
    process.kill()
    process.communicate()


def killed_run(experiment: Path, folder: Path, kills: int, seconds: float, draw: random.Random) -> bool:
    """Kill a run so many times, then let it go on to its end; whether the first kill came in time."""
    in_time = []
    for _ in range(kills):
        kill_somewhere(go_on(experiment, folder), folder, seconds, draw)
        in_time.append(not (folder / "summary.json").exists())
    last = finish(go_on(experiment, folder))
    assert last.code == 0, last
    return in_time[0]


@pytest.mark.parametrize("more", ["rounds=12", "method=fedavgm", "method=scaffold", "model.dropout=0.5"])
def test_a_killed_run_comes_to_the_same_end(more: str, tmp_path: Path) -> None:
    experiment = write_tiny(tmp_path, "method=fedavg", *SHORT, more)
    undisturbed = start(load_experiment(experiment), tmp_path / "undisturbed")
    process = spawn("run", experiment, "--out", tmp_path / "killed")
    wait_until(lambda: rounds_done(tmp_path / "killed") >= 2, "the second round")
    process.kill()
    process.communicate()
    assert result(resume(tmp_path / "killed")) == result(undisturbed)


@pytest.mark.faults
@pytest.mark.parametrize("method", METHODS)
def test_twenty_killed_runs_come_to_the_same_end(method: str, tmp_path: Path) -> None:
    experiment = write_tiny(tmp_path, f"method={method}", *LONG)
    undisturbed = start(load_experiment(experiment), tmp_path / "undisturbed")
    same = in_time = 0
    for number in range(20):
        draw, folder = random.Random(f"{method} {number}"), tmp_path / f"killed {number}"
        # Every third run is killed again while it resumes.
        kills = 1 + (number % 3 == 0)
        in_time += killed_run(experiment, folder, kills, undisturbed["seconds"], draw)
        same += result(read_summary(folder)) == result(undisturbed)
    assert same == 20
    assert in_time >= 15


def kill_at_calls(tmp_path: Path, *numbers: int) -> list[dict[str, Any]]:
    experiment = write_tiny(tmp_path, "method=scaffold", "rounds=4")
    script = Path(__file__).with_name("kill_at_call.py")
    said = subprocess.run(
        [sys.executable, script, experiment, tmp_path, *map(str, numbers)],
        capture_output=True, text=True, timeout=600, check=True,
    ).stdout  # fmt: skip
    return [json.loads(line) for line in said.splitlines()]


def check_killed_at_calls(whole: dict[str, Any], killed: list[dict[str, Any]]) -> None:
    assert not whole["killed"]
    for one in killed:
        assert one["killed"], one
        assert result(one["summary"]) == result(whole["summary"]), one
        assert one["summary"]["left"] == [], one
        # The state on the disk is never more than the round at work behind.
        assert one["summary"]["checkpoint_at_kill"] >= one["summary"]["rows_at_kill"] - 1, one


def test_a_run_killed_while_it_writes_comes_to_the_same_end(tmp_path: Path) -> None:
    whole, *killed = kill_at_calls(tmp_path, 0, 3, 25, 42, 61, 78)
    check_killed_at_calls(whole, killed)


@pytest.mark.faults
def test_a_run_killed_at_every_call_that_writes_comes_to_the_same_end(tmp_path: Path) -> None:
    (whole,) = kill_at_calls(tmp_path, 0)
    assert whole["calls"] > 100
    shutil.rmtree(tmp_path / "0")
    whole, *killed = kill_at_calls(tmp_path, 0, *range(1, whole["calls"] + 1))
    assert len(killed) > 100
    check_killed_at_calls(whole, killed)


def truncate(content: bytes, draw: random.Random) -> bytes:
    return content[: draw.randrange(len(content))]


def flip(content: bytes, draw: random.Random) -> bytes:
    place = draw.randrange(len(content))
    return content[:place] + bytes([content[place] ^ 1 << draw.randrange(8)]) + content[place + 1 :]


def newest_files(folder: Path) -> list[Path]:
    """The manifest of the newest checkpoint, and the blobs that no older one has."""
    *older, newest = sorted((folder / "checkpoints").glob("round-*.json"))
    bodies = [json.loads(path.read_text())["body"] for path in (*older, newest)]
    names = [{body["server"], *body["memory"].values()} for body in bodies]
    return [
        newest,
        *(folder / "checkpoints" / "blobs" / name for name in sorted(names[-1] - set().union(*names[:-1]))),
    ]


def check_damage(tmp_path: Path, count: int, caplog: pytest.LogCaptureFixture) -> None:
    whole = tmp_path / "whole"
    undisturbed = start(tiny("method=scaffold", "rounds=4"), whole)
    for number in range(2 * count):
        draw, folder = random.Random(number), tmp_path / str(number)
        shutil.copytree(whole, folder)
        path = draw.choice(newest_files(folder))
        content = path.read_bytes()
        path.write_bytes((truncate if number < count else flip)(content, draw))
        caplog.clear()
        assert result(resume(folder)) == result(undisturbed)
        assert "is damaged" in caplog.text
        assert "going on from round 3" in caplog.text
        shutil.rmtree(folder)


def test_damaged_checkpoints_are_seen(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    check_damage(tmp_path, 4, caplog)


@pytest.mark.faults
def test_a_hundred_damaged_checkpoints_are_seen(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    check_damage(tmp_path, 50, caplog)


WITH_WORKERS = ("method=scaffold", "engine.name=loop", "engine.processes=2", "rounds=40", "local.epochs=3")


@pytest.fixture(scope="module")
def undisturbed(tmp_path_factory: pytest.TempPathFactory) -> tuple[str, str]:
    """The end that a run with two workers comes to."""
    return result(start(tiny(*WITH_WORKERS), tmp_path_factory.mktemp("undisturbed") / "run"))


def in_its_second_round(tmp_path: Path) -> tuple[subprocess.Popen[str], list[int]]:
    """A run with two workers at work, and the workers."""
    experiment = write_tiny(tmp_path, *WITH_WORKERS)
    # A shell that starts tests in the background has them ignore Ctrl-C, and so would the run.
    hear = functools.partial(signal.signal, signal.SIGINT, signal.SIG_DFL)
    process = spawn("run", experiment, "--out", tmp_path / "run", start_new_session=True, preexec_fn=hear)
    wait_until(lambda: rounds_done(tmp_path / "run") >= 2, "the second round")
    return process, children(process.pid)


@pytest.mark.parametrize(
    ("send", "number"),
    [(os.killpg, signal.SIGINT), (os.kill, signal.SIGTERM), (os.killpg, signal.SIGTERM)],
    ids=["ctrl-c", "kill", "kill of all"],
)
def test_a_run_that_is_told_to_stop_says_how_to_go_on(
    send: Any, number: signal.Signals, tmp_path: Path, undisturbed: tuple[str, str]
) -> None:
    process, workers = in_its_second_round(tmp_path)
    send(process.pid, number)
    stopped = finish(process)
    assert stopped.code == 4
    assert stopped.err == f"error: stopped; continue with `counterpoise resume {tmp_path / 'run'}`\n"
    assert len(workers) == 2
    wait_until(lambda: not any(map(alive, workers)), "the end of the workers")
    assert rounds_done(tmp_path / "run") < 40
    assert result(resume(tmp_path / "run")) == undisturbed


def test_a_killed_worker_ends_the_run_in_one_line_and_it_goes_on(
    tmp_path: Path, undisturbed: tuple[str, str]
) -> None:
    process, workers = in_its_second_round(tmp_path)
    os.kill(workers[0], signal.SIGKILL)
    code, _, err = finish(process)
    assert code == 4
    assert len(err.splitlines()) == 1
    assert "a worker process ended" in err
    assert f"continue with `counterpoise resume {tmp_path / 'run'}`" in err
    assert result(resume(tmp_path / "run")) == undisturbed


def test_a_killed_parent_leaves_no_worker_and_no_lock(tmp_path: Path) -> None:
    experiment = write_tiny(
        tmp_path, "engine.name=loop", "engine.processes=2", "local.epochs=20", "rounds=1000"
    )
    process = spawn("run", experiment, "--out", tmp_path / "run")
    wait_until(lambda: rounds_done(tmp_path / "run") >= 1, "the first round")
    workers = children(process.pid)
    process.kill()
    process.communicate()
    assert len(workers) == 2
    with RunFolder(tmp_path / "run").locked():  # workers that still finish a client do not hold it
        pass
    wait_until(lambda: not any(map(alive, workers)), "the end of the workers")
