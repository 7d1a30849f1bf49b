"""Help answers at once, importing the package does nothing, and nobody is shown progress who is not looking."""

from __future__ import annotations

import contextlib
import io
import json
import os
import pty
import re
import statistics
import subprocess
import sys
from importlib.metadata import requires
from pathlib import Path

import pytest
from PIL import Image
from runs import COMMAND, finish, spawn, write_tiny

from counterpoise.run.progress import Live

HEAVY = ("torch", "numpy", "sklearn", "scipy", "matplotlib", "safetensors")
TYPERS = {re.match(r"[\w-]+", need)[0] for need in requires("typer") or ()}  # type: ignore[index]  # what it imports itself


def test_help_answers_at_once() -> None:
    times = []
    for _ in range(3):
        began = processor_seconds()
        subprocess.run([*COMMAND, "--help"], check=True, capture_output=True)
        times.append(processor_seconds() - began)
    assert statistics.median(times) < 2


def processor_seconds() -> float:
    """What ended children have used: a busy machine does not lengthen it."""
    spent = os.times()
    return spent.children_user + spent.children_system


@pytest.mark.parametrize("arguments", [["--help"], ["run", "--help"], ["--version"], ["nonsense"], ["run"]])
def test_help_and_usage_import_nothing_heavy(arguments: list[str]) -> None:
    heavy = {*HEAVY} - TYPERS
    program = (
        "import sys\nfrom counterpoise.cli import main\n"
        f"sys.argv = ['counterpoise', *{arguments!r}]\n"
        "try:\n    main()\nexcept SystemExit:\n    pass\n"
        f"assert not {heavy!r} & {{*sys.modules}}, {heavy!r} & {{*sys.modules}}\n"
    )
    subprocess.run([sys.executable, "-c", program], check=True, capture_output=True, text=True)


def test_importing_the_package_opens_no_file_but_modules_and_reaches_nowhere() -> None:
    program = (
        "import json, sys\n"
        "seen = []\n"
        "def hear(event, arguments):\n"
        "    if event == 'open' or event.startswith(('socket', 'subprocess', 'os.', 'shutil')):\n"
        "        seen.append((event, str(arguments[0]) if arguments else ''))\n"
        "sys.addaudithook(hear)\n"
        "import counterpoise\n"
        f"heavy = sorted({{*{HEAVY!r}}} & {{*sys.modules}})\n"
        "print(json.dumps({'seen': seen, 'heavy': heavy}))\n"
    )
    said = subprocess.run([sys.executable, "-c", program], check=True, capture_output=True, text=True).stdout
    found = json.loads(said)
    assert found["heavy"] == []
    harmless = ("os.listdir", "os.scandir")  # how modules are found
    assert [
        (event, name) for event, name in found["seen"]
        if event not in harmless and not re.search(r"\.pyc?(\.\d+)?$", name)
    ] == []  # fmt: skip


def test_names_are_looked_up_when_they_are_used() -> None:
    program = (
        "import sys, counterpoise\n"
        "assert 'simulate' in dir(counterpoise)\n"
        "assert 'torch' not in sys.modules\n"
        "for name in counterpoise.__all__:\n    assert getattr(counterpoise, name) is not None\n"
        "assert 'torch' in sys.modules\n"
        "try:\n    counterpoise.nonsense\nexcept AttributeError as error:\n    assert 'nonsense' in str(error)\n"
        "else:\n    raise SystemExit(1)\n"
    )
    subprocess.run([sys.executable, "-c", program], check=True)


def test_nobody_is_shown_progress_who_is_not_looking(tmp_path: Path) -> None:
    code, out, err = finish(spawn("run", write_tiny(tmp_path), "--out", tmp_path / "run"))
    assert (code, err) == (0, "")
    assert "\x1b" not in out
    for picture in ("partition.png", "curves.png"):
        with Image.open(tmp_path / "run" / picture) as image:
            assert image.format == "PNG"
            assert min(image.size) > 300


def on_a_terminal(*arguments: object) -> tuple[int, str]:
    """The exit code and what a terminal shows of a command's stderr."""
    ours, theirs = pty.openpty()
    env = {"TERM": "xterm-256color", "COLUMNS": "120", "NO_COLOR": ""}
    process = spawn(*arguments, stderr=theirs, stdin=theirs, env=env)
    os.close(theirs)
    shown = b""
    while True:
        try:
            shown += (chunk := os.read(ours, 65536))
        except OSError:  # how Linux tells that the other end is closed
            break
        if not chunk:
            break
    os.close(ours)
    process.communicate(timeout=60)
    return process.returncode, re.sub(r"\x1b\[[0-9;?]*[A-Za-z]", "", shown.decode(errors="replace"))


def test_a_terminal_shows_round_accuracy_tail_and_time_left(tmp_path: Path) -> None:
    experiment = write_tiny(tmp_path, "rounds=6", "evaluate.every=2")
    code, shown = on_a_terminal("run", experiment, "--out", tmp_path / "run")
    assert code == 0
    assert "round 6/6" in shown
    assert re.search(r"accuracy \d+\.\d%", shown)
    assert re.search(r"tail \d+\.\d%", shown)
    assert re.search(r"\d+:\d\d", shown)
    last = shown.split("round 5/6")[-1]
    assert "accuracy" in last  # a round without an evaluation keeps showing the last one


def test_a_terminal_shows_bad_replies_and_skipped_rounds(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("FORCE_COLOR", "1")
    monkeypatch.setenv("COLUMNS", "120")
    shown = io.StringIO()
    with contextlib.redirect_stderr(shown), Live() as live:
        live.round_ended({"round": 0, "loss": None, "rejected": [{"client": 1}, {"client": 2}]}, 3)
    assert "round 1/3" in shown.getvalue()
    assert "2 bad replies" in shown.getvalue()
    assert "round skipped" in shown.getvalue()


def test_a_reader_that_leaves_early_is_no_error(tmp_path: Path) -> None:
    process = spawn("show", "fedavg")
    assert process.stdout is not None
    process.stdout.close()
    process.wait(timeout=60)
    assert process.stderr is not None
    assert "Traceback" not in process.stderr.read()


def test_a_terminal_of_few_characters_is_enough() -> None:
    for arguments in (["--help"], ["show", "fedavg"], ["rnu"]):
        code, _, err = finish(spawn(*arguments, env={"PYTHONIOENCODING": "ascii", "LC_ALL": "C"}))
        assert code in (0, 2)
        assert "Unicode" not in err
        assert "Traceback" not in err
