"""Nothing in data, configs or names of files reaches a terminal as anything but text."""

from __future__ import annotations

import io
import os
import pty
import re
import subprocess
from contextlib import redirect_stderr, redirect_stdout
from pathlib import Path

import pytest
from PIL import Image
from rich.markup import escape
from rich.table import Table
from rich.text import Text
from runs import COMMAND, assert_refused, call, write_tiny

from counterpoise.advice.race import Board, Standing
from counterpoise.advice.trials import Trial
from counterpoise.cli.advise import LiveBoard
from counterpoise.cli.progress import DownloadBar, RunsBar
from counterpoise.cli.terminal import plain_output, screen
from counterpoise.sweep.run import Tally

RED = "\x1b[31mred\x1b[0m"
HOSTILE = {
    "colour": RED,
    "title": "\x1b]0;title\x07",
    "C1": "\x9b31m",
    "back": "ab\x08\x08cd",
    "carriage": "new\rold",
    "bidi": "\u202egnp.exe",
    "isolate": "\u2066x\u2069",
    "bytes": "\udcff\ud800",
}
# What may never leave, but for the colours of Rich
RAW = re.compile("[\x00-\x08\x0b-\x1f\x7f-\x9f\u202a-\u202e\u2066-\u2069\ud800-\udfff]")
MARKUP = "[red]x[/red] [/]"


@pytest.mark.parametrize("name", HOSTILE.values(), ids=list(HOSTILE))
def test_what_is_printed_is_plain(name: str, capsys: pytest.CaptureFixture[str]) -> None:
    with plain_output():
        print(f"class {name}")
    printed = capsys.readouterr().out
    assert printed.startswith("class ")
    assert not RAW.search(printed)


@pytest.mark.parametrize("name", HOSTILE.values(), ids=list(HOSTILE))
def test_what_rich_shows_is_plain_but_for_its_own_colours(name: str) -> None:
    stream = io.StringIO()
    console = screen(file=stream, force_terminal=True, width=200, color_system="standard", highlight=False)
    table = Table(title=Text(name))
    table.add_column(escape(name))
    table.add_row(escape(name))
    table.add_row(Text(name, style="bold"))
    console.print(table)
    console.print(name, markup=False)
    assert "\x1b[1m" in stream.getvalue()
    assert not RAW.search(re.sub("\x1b\\[(0|1|3)m", "", stream.getvalue()))


class Terminal(io.StringIO):
    def isatty(self) -> bool:
        return True


def test_a_live_display_moves_the_cursor_and_does_not_spell_that_out(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("TERM", "xterm")
    trial = Trial(RED, "fedavg", {"local.lr": 0.1}, "")
    with redirect_stderr(Terminal()) as stream, plain_output(), LiveBoard() as board:
        board.show(Board("finals", [Standing(trial, 0.5, 1, 2)], 1, 60.0))
    assert "\x1b[" in stream.getvalue()
    assert "\\u001b[2K" not in stream.getvalue()
    assert "\\u001b[31m" in stream.getvalue()  # but names stay text


def test_output_that_takes_few_letters_gets_escapes() -> None:
    raw = io.BytesIO()
    stream = io.TextIOWrapper(raw, "ascii", write_through=True)
    with redirect_stdout(stream), plain_output():
        print("né \u202e \udcff")
    assert raw.getvalue() == b"n\\xe9 \\u202e \\xff\n"


def make_images(folder: Path, *classes: str) -> Path:
    for name in classes:
        (folder / name).mkdir(parents=True)
        for number in range(5):
            Image.new("L", (8, 8), number).save(folder / name / f"{number}.png")
    return folder


def shown(*arguments: object) -> str:
    """What a terminal receives of a command."""
    ours, theirs = pty.openpty()
    process = subprocess.Popen([*COMMAND, *map(str, arguments)], stdin=theirs, stdout=theirs, stderr=theirs)
    os.close(theirs)
    seen = b""
    try:
        while piece := os.read(ours, 65536):
            seen += piece
    except OSError:  # so ends a terminal whose writers are gone
        pass
    os.close(ours)
    process.wait()
    return seen.decode()


def test_a_real_terminal_gets_no_escape_of_the_data(tmp_path: Path) -> None:
    (tmp_path / "t.csv").write_text(
        f"{RED},y,who\n" + "".join(f"{k},{'ab'[k % 2]}\u202e{MARKUP},{RED}{k % 3}\n" for k in range(60))
    )
    command = ["data", "inspect", tmp_path / "t.csv", "--label", "y", "--client", "who"]
    seen = shown(*command, "--picture", tmp_path / "p.png")
    assert "a\\u202e[red]x[/red] [/]" in seen
    assert RED not in seen
    assert "\u202e" not in seen
    assert not RAW.search(seen.replace("\r\n", "\n").replace("\x1b[?25h", ""))


@pytest.mark.parametrize("name", ["a\u202eb", MARKUP.replace("/", ":"), "\u2066[bold]"], ids=ascii)
def test_names_of_folders_are_shown_literally(tmp_path: Path, name: str) -> None:
    images = make_images(tmp_path / "images", name, "other")
    finished = call("data", "inspect", images, "--picture", tmp_path / "p.png")
    assert finished.code == 0, finished
    assert name.replace("\u202e", "\\u202e").replace("\u2066", "\\u2066") in finished.out
    assert not RAW.search(finished.out + finished.err)


@pytest.mark.parametrize("name", [RED, "\u202ex", "a\rb", MARKUP.replace("/", ":")], ids=ascii)
def test_names_of_runs_are_shown_literally(tmp_path: Path, name: str) -> None:
    runs = tmp_path / name
    call("run", write_tiny(tmp_path, "rounds=1"), "--out", runs / "run")
    for command in (["ls", "runs", runs], ["watch", "--once", runs], ["diff", runs / "run", runs / "run"]):
        finished = call(*command)
        assert finished.code == 0, finished
        assert not RAW.search(finished.out + finished.err)
    assert name not in call("ls", "runs", runs).out or "[red]" in name
    assert "[red]x[:red]" in call("ls", "runs", runs).out or "[red]" not in name
    assert_refused(call("run", tmp_path / "tiny.toml", "--out", runs / "run"), 2, "holds a run already")
    assert not RAW.search(call("resume", runs / "none").err)


@pytest.mark.parametrize("value", [*HOSTILE.values(), MARKUP], ids=[*HOSTILE, "markup"])
def test_errors_are_plain(tmp_path: Path, value: str) -> None:
    experiment = write_tiny(tmp_path)
    for given in (
        ["show", value],
        ["ls", value],
        [value],
        ["run", value],
        ["validate", experiment, f"method={value}"],
    ):
        err = call(*given).err
        assert err.startswith("error: ")
        assert not RAW.search(err.removesuffix("\n"))


@pytest.mark.parametrize("value", ["a\u202eb", "\x7f", "\x9b31m"], ids=ascii)
def test_errors_about_keys_of_a_file_are_plain(tmp_path: Path, value: str) -> None:
    (tmp_path / "x.toml").write_text(f'"{value}" = 1\n' if value != "\x7f" else '"\\u007f\\u001b[31m" = 1\n')
    finished = call("validate", tmp_path / "x.toml")
    assert_refused(finished, 2, "no key ")
    assert not RAW.search(finished.err)


def test_a_bar_moves_the_cursor_and_does_not_spell_that_out(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("TERM", "xterm")
    with redirect_stderr(Terminal()) as stream, plain_output(), RunsBar() as bar:
        bar.show(Tally(RED, 2, 1))
    assert "\x1b[" in stream.getvalue()
    assert "\\u001b[2K" not in stream.getvalue()
    assert "\\u001b[31m" in stream.getvalue()  # but names stay text


def test_the_bar_of_a_download_leaves_standard_output_to_the_paths(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """It was drawn there, into the list of files that another command reads."""
    monkeypatch.setenv("TERM", "xterm")
    with redirect_stderr(Terminal()) as stream, DownloadBar() as bar:
        bar.show("set.bin", 0, 2_000_000)
        bar.show("set.bin", 2_000_000, 2_000_000)
    assert "set.bin" in stream.getvalue()
    assert capsys.readouterr().out == ""
