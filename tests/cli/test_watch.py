"""The live view: one frame where nobody looks, and on a terminal frames until all have ended, q or Ctrl-C."""

from __future__ import annotations

import functools
import json
import os
import pty
import re
import select
import shutil
import signal
import subprocess
import time
from pathlib import Path

import pytest
from rich.console import Console
from runs import PATIENCE, assert_refused, call, finish, reseal, spawn, tiny

from counterpoise.cli import watch as view
from counterpoise.cli.frame import PLAIN_STEPS, clock, frame, shorten, sparkline
from counterpoise.cli.watch import Runs
from counterpoise.run.runner import start
from counterpoise.run.store.folder import RunFolder, read_rows


@pytest.fixture(scope="module")
def finished(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("watched") / "runs" / "one"
    start(tiny(), folder)
    return folder


@pytest.fixture
def stopped(finished: Path, tmp_path: Path) -> Path:
    """The folder of a run of four rounds that was stopped after two and a half."""
    folder = RunFolder(shutil.copytree(finished, tmp_path / "runs" / "one"))
    folder.summary.unlink()
    for log in (folder.metrics, folder.timing):
        lines = log.read_bytes().splitlines(keepends=True)
        log.write_bytes(b"".join(lines[:2]) + lines[2][:7])
    return folder.path


class Terminal:
    """A command on a terminal of its own."""

    def __init__(self, *arguments: object) -> None:
        self.ours, theirs = pty.openpty()
        env = {"TERM": "xterm-256color", "COLUMNS": "140", "LINES": "30", "NO_COLOR": "1"}
        # A suite that runs in the background is started with interrupts ignored.
        hear = functools.partial(signal.signal, signal.SIGINT, signal.SIG_DFL)
        self.process: subprocess.Popen[str] = spawn(
            *arguments,
            stdin=theirs,
            stdout=theirs,
            stderr=theirs,
            env=env,
            start_new_session=True,
            preexec_fn=hear,
        )
        os.close(theirs)
        self.shown = ""

    def wait_for(self, words: str) -> None:
        end = time.monotonic() + PATIENCE
        while words not in self.shown:
            assert time.monotonic() < end, f"{words!r} was not shown: {self.shown[-2000:]}"
            if select.select([self.ours], [], [], 0.1)[0]:
                self._read()

    def press(self, key: str) -> None:
        os.write(self.ours, key.encode())

    def finish(self) -> int:
        while self._read():
            pass
        os.close(self.ours)
        return self.process.wait(timeout=PATIENCE)

    def _read(self) -> bool:
        try:
            chunk = os.read(self.ours, 65536)
        except OSError:  # how Linux tells that the other end is closed
            return False
        self.shown += re.sub(r"\x1b\[[0-9;?]*[A-Za-z]", "", chunk.decode(errors="replace"))
        return bool(chunk)


def test_one_frame_tells_state_rounds_scores_and_pace(finished: Path) -> None:
    code, out, err = call("watch", finished.parent, "--once")
    assert (code, err) == (0, "")
    summary = json.loads((finished / "summary.json").read_text())
    assert f"{finished.parent}: 1 done; 4 of 4 rounds" in out
    assert re.search(r"^one +done +4/4 ", out, re.MULTILINE)
    assert f"{summary['accuracy']:.1%}" in out
    assert f"{summary['tail']:.1%}" in out
    assert len(re.findall(r"[▁▂▃▄▅▆▇█]{4}", out)) == 1


def test_where_there_is_no_terminal_one_frame_is_all(stopped: Path) -> None:
    """Even where the run has not ended, and a row is half written."""
    code, out, err = finish(spawn("watch", stopped))
    assert (code, err) == (0, "")
    assert re.search(r"^one +stopped +2/4 ", out, re.MULTILINE)
    assert "\x1b" not in out


def test_time_left_is_shown_of_a_run_at_work(stopped: Path) -> None:
    RunFolder(stopped).timing.write_text('{"round": 0, "seconds": 40}\n{"round": 1, "seconds": 50}\n')
    assert "1:30" not in call("watch", stopped, "--once").out
    with RunFolder(stopped).locked():
        out = call("watch", stopped, "--once").out
    assert re.search(r"^one +running .* 1:30$", out, re.MULTILINE)
    assert "0.0222" in out


def test_failures_are_shown_with_their_reason(stopped: Path) -> None:
    (stopped / "failure.json").write_text('{"error": "no [bold] space left"}')
    out = call("watch", stopped.parent, "--once").out
    assert f"{stopped.parent}: 1 failed; 2 of 4 rounds" in out
    assert f"{stopped}: no [bold] space left" in out


def test_a_terminal_of_few_characters_is_enough(finished: Path) -> None:
    code, out, err = finish(spawn("watch", finished, env={"PYTHONIOENCODING": "ascii", "LC_ALL": "C"}))
    assert (code, err) == (0, "")
    assert not set(out) & set("▁▂▃▄▅▆▇█")
    assert re.search(rf"[{re.escape(PLAIN_STEPS)}]{{4}}", out)


def test_where_there_is_no_run_yet_that_is_said(tmp_path: Path) -> None:
    assert call("watch", tmp_path) == (0, f"{tmp_path}: no run yet\n", "")
    assert_refused(call("watch", tmp_path / "none"), 2, "is not a folder")


def test_a_run_is_followed_to_its_end(stopped: Path) -> None:
    terminal = Terminal("watch", stopped)
    terminal.wait_for("2/4")
    folder = RunFolder(stopped)
    with folder.locked():
        terminal.wait_for("running")
        for log, row in (
            (folder.timing, {"round": 2, "seconds": 0.1}),
            (folder.metrics, read_rows(folder.metrics)[-1] | {"round": 2, "loss": 0.25}),
        ):
            log.write_bytes(b"".join(log.read_bytes().splitlines(keepends=True)[:2]))
            folder.append(log, row)
        terminal.wait_for("3/4")
        assert "0.250" in terminal.shown
        assert terminal.process.poll() is None
    reseal(stopped, {"accuracy": 0.5})
    assert terminal.finish() == 0
    assert "done" in terminal.shown


@pytest.mark.parametrize("key", ["xq", ""])
def test_leaving_by_q_or_interrupt_is_no_error(stopped: Path, key: str) -> None:
    terminal = Terminal("watch", stopped.parent)
    terminal.wait_for("2/4")
    if key:
        terminal.press(key)
    else:
        terminal.process.send_signal(signal.SIGINT)
    assert terminal.finish() == 0
    assert "Traceback" not in terminal.shown


def test_a_sweep_is_over_only_when_it_begins_nothing_more(
    finished: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    one, many = Runs(finished), Runs(finished.parent)
    for runs in (one, many):
        runs.refresh()
    (finished / "summary.json").touch()
    monkeypatch.setattr(view, "LULL", 1000.0)
    many.refresh()
    assert one.over()
    assert not many.over()
    monkeypatch.setattr(view, "LULL", 0.0)
    assert many.over()


def test_a_run_is_read_again_only_when_it_has_written(stopped: Path) -> None:
    runs = Runs(stopped)
    runs.refresh()
    first = runs.all[0]
    runs.refresh()
    assert runs.all[0] is first
    os.utime(stopped / "metrics.jsonl", (1, time.time() + 5))
    runs.refresh()
    assert runs.all[0] is not first


def test_of_many_runs_those_at_work_come_first_and_the_rest_is_counted(
    finished: Path, tmp_path: Path
) -> None:
    for name in "abcde":
        shutil.copytree(finished, tmp_path / "runs" / name)
    (tmp_path / "runs" / "e" / "summary.json").unlink()
    runs = Runs(tmp_path / "runs")
    runs.refresh()
    assert [run.path.name for run in runs.all] == ["e", "a", "b", "c", "d"]
    console = view.wide_console()
    with console.capture() as shown:
        console.print(frame(runs.folder, runs.all, console, most=2))
    assert "and 3 more" in shown.get()
    assert shown.get().count("4/4") == 2


@pytest.mark.parametrize("width", [30, 60, 80, 100, 140])
def test_a_narrow_terminal_cuts_neither_state_nor_round(stopped: Path, width: int) -> None:
    long = "problem-imbalance-100-dirichlet-0.1/fedavg+balanced_softmax/seed-3"
    shutil.copytree(stopped, stopped.parent / long)
    runs = Runs(stopped.parent)
    runs.refresh()
    console = Console(width=width)
    with console.capture() as captured:
        console.print(frame(runs.folder, runs.all, console))
    lines = [line for line in captured.get().splitlines() if " stopped " in line]
    assert [line.split()[1:3] for line in lines] == [["stopped", "2/4"]] * 2
    assert "…" not in captured.get()
    assert "seed-3" in captured.get() or width < 60
    assert ("accuracy" in captured.get()) == (width >= 60)
    assert ("loss" in captured.get()) == (width >= 80)
    assert ("rounds/s" in captured.get()) == (width >= 100)


def test_a_long_name_is_cut_in_the_middle() -> None:
    assert shorten("abcdefgh", 8) == "abcdefgh"
    assert shorten("abcdefghij", 8) == "abc..hij"
    assert shorten("abcdefghij", 7) == "abc..ij"
    assert [shorten("abcdef", width) for width in (1, 2, 3)] == [".", "..", "a.."]


def test_a_curve_in_one_line() -> None:
    assert sparkline([]) == ""
    assert sparkline([0.5]) == "▁"
    assert sparkline([3.0, 3.0]) == "▁▁"
    assert sparkline([0.0, 7.0, 3.0]) == "▁█▄"
    assert sparkline([float(k) for k in range(800)], width=8) == "▁▂▃▄▅▆▇█"


def test_time_in_few_letters() -> None:
    assert [clock(s) for s in (0, 59.6, 61, 3600, 86399)] == ["0:00", "1:00", "1:01", "1:00:00", "23:59:59"]
