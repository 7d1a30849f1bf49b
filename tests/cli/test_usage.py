"""Help, usage errors and completion, with whichever typer is installed: an older one uses click, a newer one its own."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
import typer
from runs import assert_refused, call

from counterpoise.cli import app
from counterpoise.version import __version__


def every_command() -> list[tuple[str, ...]]:
    """The words of all commands and of the groups of them."""
    found: list[tuple[str, ...]] = []

    def walk(command: Any, words: tuple[str, ...]) -> None:
        found.append(words)
        for name, inner in getattr(command, "commands", {}).items():
            walk(inner, (*words, name))

    walk(typer.main.get_command(app), ())
    return found


@pytest.mark.parametrize("words", every_command(), ids=" ".join)
def test_h_helps_as_help_does(words: tuple[str, ...]) -> None:
    short, long = call(*words, "-h"), call(*words, "--help")
    assert short == long
    assert (short.code, short.err) == (0, "")
    assert "Usage: counterpoise" in short.out


USAGE = {
    "unknown command": (["nonsense"], "No such command 'nonsense'. See `counterpoise --help`."),
    "misspelt command": (["runn"], "Did you mean 'run'? See `counterpoise --help`."),
    "unknown option": (["ls", "-x"], "-x", "See `counterpoise ls --help`."),
    "missing argument": (["run"], "Missing argument '", "See `counterpoise run --help`."),
    "missing in a group": (
        ["data", "download"],
        "Missing argument '",
        "See `counterpoise data download --help`.",
    ),
    "argument too many": (
        ["show", "a", "b"],
        "Got unexpected extra argument",
        "(b). See `counterpoise show --help`.",
    ),
    "wrong value": (
        ["ls", "methods", "here"],
        "a folder goes only with `ls runs`. See `counterpoise ls",
    ),
}


@pytest.mark.parametrize(("arguments", "words"), [(a, w) for a, *w in USAGE.values()], ids=USAGE)
def test_a_wrong_use_is_one_line_that_leads_to_the_help(arguments: list[str], words: list[str]) -> None:
    assert_refused(call(*arguments), 2, *words)


@pytest.mark.parametrize("words", [(), ("data",), ("flower",)], ids=["all", "data", "flower"])
def test_a_group_without_a_command_explains_itself(words: tuple[str, ...]) -> None:
    given = call(*words)
    assert given.code == 2
    assert "Usage: counterpoise" in given.out + given.err
    assert "should not happen" not in given.err


def as_module(*arguments: str, **environment: str) -> subprocess.CompletedProcess[str]:
    command = [sys.executable, "-m", "counterpoise", *arguments]
    return subprocess.run(command, env=os.environ | environment, capture_output=True, text=True, check=False)


def test_the_package_runs_as_a_module() -> None:
    told = as_module("--version")
    assert (told.returncode, told.stdout, told.stderr) == (0, f"{__version__}\n", "")
    wrong = as_module("nonsense")
    assert (wrong.returncode, wrong.stdout) == (2, "")
    assert wrong.stderr == "error: No such command 'nonsense'. See `counterpoise --help`.\n"


BY_NAME = {
    "_TYPER_COMPLETE_TEST_DISABLE_SHELL_DETECTION": "1"
}  # the shell as a word, not the one that tests run in


@pytest.mark.parametrize("shell", ["bash", "zsh", "fish"])
def test_a_script_that_completes_words_is_shown(shell: str) -> None:
    told = as_module("--show-completion", shell, **BY_NAME)
    assert (told.returncode, told.stderr) == (0, "")
    assert "_COUNTERPOISE_COMPLETE" in told.stdout


def test_a_script_that_completes_words_is_installed(tmp_path: Path) -> None:
    told = as_module("--install-completion", "bash", **BY_NAME, HOME=str(tmp_path))
    assert (told.returncode, told.stderr) == (0, "")
    assert "bash completion installed in" in told.stdout
    assert "counterpoise" in (tmp_path / ".bashrc").read_text()


def test_an_unknown_shell_is_a_wrong_use() -> None:
    assert as_module("--show-completion", "nonsense", **BY_NAME).returncode == 2


def test_words_are_completed() -> None:
    asked = {"_COUNTERPOISE_COMPLETE": "complete_bash", "COMP_WORDS": "counterpoise re", "COMP_CWORD": "1"}
    told = as_module(**asked)
    assert (told.returncode, told.stderr) == (0, "")
    assert {"resume", "report"} <= {*told.stdout.split()}
    assert "run" not in told.stdout.split()
