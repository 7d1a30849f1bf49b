"""Ctrl-C at any moment: one line, the exit code of a stop, and no traceback, however often it is pressed."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

from runs import Finished, assert_refused, write_tiny

# A shell that starts tests in the background has them ignore Ctrl-C, and so would the command.
HEARING = "import os, signal, sys\nsignal.signal(signal.SIGINT, signal.default_int_handler)\n"
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
    "from counterpoise.experiment import runner\n"
    f"def start(config, folder, watch):\n    {PRESS}\n    signal.pause()\n"
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
