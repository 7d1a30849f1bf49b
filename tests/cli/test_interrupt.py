"""Ctrl-C and polite signals at any moment: one line, the exit code of a stop, and no traceback, however often they come."""

from __future__ import annotations

import os
import pty
import signal
import subprocess
import sys
from pathlib import Path

import pytest
from runs import COMMAND, PATIENCE, Finished, assert_refused, rounds_done, spawn, wait_until, write_tiny

from counterpoise.cli.interrupt import STOPS, interruptible

# A shell that starts tests in the background has them ignore signals, and so would the command.
HEARING = (
    "import os, signal, sys\nsignal.signal(signal.SIGINT, signal.default_int_handler)\n"
    "for number in (signal.SIGHUP, signal.SIGQUIT): signal.signal(number, signal.SIG_DFL)\n"
)
PRESS = "os.kill(os.getpid(), signal.SIGINT)"


def command(before: str, *arguments: object) -> Finished:
    """A command in a process of its own, in which something is done before."""
    words = ["counterpoise", *map(str, arguments)]
    program = f"{HEARING}{before}\nsys.argv = {words!r}\nfrom counterpoise.cli import main\nmain()\n"
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, timeout=120)
    return Finished(done.returncode, done.stdout, done.stderr)


def test_ctrl_c_while_the_command_line_is_being_imported() -> None:
    press_at_typer = (
        "class Press:\n"
        "    def find_spec(self, name, path=None, target=None):\n"
        f"        if name == 'typer': {PRESS}\n"
        "sys.meta_path.insert(0, Press())"
    )
    stopped = command(press_at_typer, "--version")
    assert stopped == (4, "", "error: stopped\n")


PRESS_AT_START = (
    "from counterpoise.run import runner\n"
    f"def start(*given, **named):\n    {PRESS}\n    signal.pause()\n"
    "runner.start = start\n"
)


def test_before_anything_is_written_nothing_can_be_resumed(tmp_path: Path) -> None:
    stopped = command(PRESS_AT_START, "run", write_tiny(tmp_path), "--out", tmp_path / "run")
    assert_refused(stopped, 4, "stopped; nothing was written yet")
    assert "resume" not in stopped.err


def test_more_of_it_as_the_program_leaves_changes_nothing(tmp_path: Path) -> None:
    again = f"import atexit\natexit.register(lambda: {PRESS})\n"
    stopped = command(again + PRESS_AT_START, "run", write_tiny(tmp_path), "--out", tmp_path / "run")
    assert_refused(stopped, 4, "stopped; nothing was written yet")


@pytest.mark.parametrize("name", ["SIGTERM", "SIGHUP", "SIGQUIT"])
def test_every_polite_signal_ends_in_one_line(tmp_path: Path, name: str) -> None:
    program = PRESS_AT_START.replace("SIGINT", name)
    stopped = command(program, "run", write_tiny(tmp_path), "--out", tmp_path / "run")
    assert_refused(stopped, 4, "stopped; nothing was written yet: run it again")


def test_a_run_that_is_hung_up_says_how_to_go_on(tmp_path: Path) -> None:
    folder = tmp_path / "run"
    experiment = write_tiny(tmp_path, "rounds=100000", "engine.processes=2", "engine.name=loop")
    process = spawn("run", experiment, "--out", folder, preexec_fn=hear_all, start_new_session=True)
    wait_until(lambda: rounds_done(folder) > 2, "a round")
    os.killpg(process.pid, signal.SIGHUP)  # as a terminal does, to the workers too
    os.killpg(process.pid, signal.SIGHUP)  # and a shell once more
    out, err = process.communicate(timeout=PATIENCE)
    stopped = Finished(process.returncode, out, err)
    assert_refused(stopped, 4, f"stopped; continue with `counterpoise resume {folder}`")


def hear_all() -> None:
    for number in STOPS:
        signal.signal(number, signal.SIG_DFL)


def test_under_nohup_a_terminal_that_is_closed_changes_nothing(tmp_path: Path) -> None:
    program = PRESS_AT_START.replace("SIGINT", "SIGHUP").replace(
        "    signal.pause()\n", "    raise SystemExit(7)\n"
    )
    ignoring = "signal.signal(signal.SIGHUP, signal.SIG_IGN)\n"
    goes_on = command(ignoring + program, "run", write_tiny(tmp_path), "--out", tmp_path / "run")
    assert (goes_on.code, goes_on.err) == (7, "")


def test_where_the_terminal_is_gone_the_exit_code_still_tells(tmp_path: Path) -> None:
    folder, (ours, theirs) = tmp_path / "run", pty.openpty()
    words = [*COMMAND, "run", str(write_tiny(tmp_path, "rounds=100000")), "--out", str(folder)]
    program = "import os, pty, signal, sys\nos.setsid()\nos.close(os.open(os.ttyname(0), os.O_RDWR))\n"
    program += f"signal.signal(signal.SIGHUP, signal.SIG_DFL)\nos.execv(sys.executable, {words!r})\n"
    process = subprocess.Popen([sys.executable, "-c", program], stdin=theirs, stdout=theirs, stderr=theirs)
    os.close(theirs)
    wait_until(lambda: rounds_done(folder) > 2, "a round")
    os.close(ours)
    assert process.wait(timeout=PATIENCE) == 4


def test_handlers_are_put_back() -> None:
    before = [signal.getsignal(number) for number in STOPS]
    with interruptible(lambda: ""):
        pass
    with pytest.raises(ZeroDivisionError), interruptible(lambda: ""):
        raise ZeroDivisionError
    assert [signal.getsignal(number) for number in STOPS] == before
