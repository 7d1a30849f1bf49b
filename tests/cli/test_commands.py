"""Every command as a user calls it: help, ls, show, validate, run, resume."""

from __future__ import annotations

import json
import re
from pathlib import Path
from typing import Any

import pytest
import typer
from rich.text import Text
from runs import assert_refused, call, read_strictly, read_summary, result, write_tiny

from counterpoise.cli import app
from counterpoise.cli.catalogue import CATALOGUE
from counterpoise.core.method import METHODS, build_method
from counterpoise.registry.registry import Entry
from counterpoise.system.toml import parse_toml
from counterpoise.version import __version__

ENTRIES = [(kind, registry.entry(name)) for kind, registry in CATALOGUE.items() for name in registry.names()]
COMMANDS = [
    command.name or command.callback.__name__ for command in app.registered_commands if command.callback
]
GROUPS = {str(group.name): group.typer_instance for group in app.registered_groups if group.typer_instance}


@pytest.mark.parametrize("command", COMMANDS)
def test_every_command_explains_itself(command: str) -> None:
    code, out, err = call(command, "--help")
    assert (code, err) == (0, "")
    assert "Usage: counterpoise" in out
    assert len(out.split()) > 20


@pytest.mark.parametrize("group", GROUPS)
def test_every_group_of_commands_explains_itself(group: str) -> None:
    assert call(group, "--help").code == 0
    for command in GROUPS[group].registered_commands:
        assert call(group, command.name or command.callback.__name__, "--help").code == 0  # type: ignore[union-attr]


def helps(command: Any) -> list[str]:
    """All texts of a command and of those below it."""
    own = [command.help or "", *(getattr(parameter, "help", None) or "" for parameter in command.params)]
    below = getattr(command, "commands", {}).values()
    return own + [text for one in below for text in helps(one)]


def test_no_word_of_a_help_is_taken_for_markup() -> None:
    found = helps(typer.main.get_command(app))
    assert len(found) > 50
    for text in found:
        assert Text.from_markup(text).plain.count("[") == text.count("["), text


def test_help_names_every_command_and_the_exit_codes() -> None:
    code, out, _ = call("--help")
    assert code == 0
    assert {"run", "resume", "validate", "ls", "show", "demo"} <= {*COMMANDS}
    assert all(f" {command} " in out for command in COMMANDS)
    assert "Exit codes: 0 done, 2 config or usage, 3 data, 4 stopped" in out


def test_the_version_is_that_of_the_package() -> None:
    assert call("--version") == (0, f"{__version__}\n", "")


@pytest.mark.parametrize("kind", CATALOGUE)
def test_ls_names_all_of_a_kind_with_their_rule(kind: str) -> None:
    code, out, err = call("ls", kind)
    assert (code, err) == (0, "")
    for name in CATALOGUE[kind].names():
        assert re.search(rf"^  {name}  *\S", out, re.MULTILINE), name


def test_ls_shows_rules_as_they_are_written() -> None:
    out = " ".join(call("ls").out.split())
    for kind, entry in ENTRIES:
        words = entry.summary.replace("``", "").split()
        assert " ".join(words[:3]) in out, (kind, entry.name)
    assert out.count("[") == sum(entry.summary.count("[") for _, entry in ENTRIES)


@pytest.mark.parametrize(("kind", "entry"), ENTRIES, ids=[f"{kind}-{entry.name}" for kind, entry in ENTRIES])
def test_show_tells_all_about_every_name(kind: str, entry: Entry[object]) -> None:
    code, out, err = call("show", entry.name)
    assert (code, err) == (0, "")
    assert f"{entry.name}  ({kind})" in out
    assert entry.summary.replace("``", "") in out
    assert entry.paper in out
    for parameter in entry.parameters.values():
        assert f"  {parameter.name}: {parameter.legal}; " in out
    if kind == "methods":
        parts = build_method(entry.name).parts
        assert all(re.search(rf"^  {part.name} \(\w", out, re.MULTILINE) for part in parts)


def test_show_switches_a_part_off_by_all_settings_that_it_takes() -> None:
    assert "(low = 0.0 and high = 0.0: switched off)" in call("show", "fedhoo").out
    assert "(rate = 0.0: switched off)" in call("show", "resample").out


@pytest.mark.parametrize("name", METHODS.names())
def test_the_configs_that_show_suggests_are_legal(name: str) -> None:
    line = next(line for line in call("show", name).out.splitlines() if line.startswith("In a config: "))
    for suggestion in line.removeprefix("In a config: ").split(", or "):
        build_method(parse_toml(suggestion, "show")["method"])


@pytest.mark.parametrize(
    ("method", "words"),
    [
        ("fedavg", "of each client: how many samples it trains on, and how many it holds out"),
        ("scaffold", "of each client, in its rounds: the change of its control variate"),
        (
            '["fedavg", {balanced_softmax = {counts = "global"}}]',
            "of all clients, as a sum: how many samples there are of each class (balanced_softmax)",
        ),
        (
            "{fedhoo = {clusters = 2}}",
            "of each client: how many samples there are of each class (fedhoo)",
        ),
    ],
)
def test_validate_and_show_of_a_run_say_what_the_server_learns(
    method: str, words: str, tmp_path: Path
) -> None:
    given = [f"method={method}", "cohort.size=4", "data.validation=0.1", "rounds=1"]
    code, out, err = call("validate", write_tiny(tmp_path), *given)
    assert (code, err) == (0, "")
    learned = [line.removeprefix("learns     ") for line in out.splitlines() if line.startswith("learns ")]
    assert [line for line in learned if line.startswith(words)]
    assert call("run", write_tiny(tmp_path), *given, "--out", tmp_path / "run").code == 0
    shown = call("show", tmp_path / "run")
    assert shown.code == 0
    assert [line.strip() for line in shown.out.splitlines() if line.startswith("  of ")] == learned


def test_show_of_a_method_says_what_the_server_learns() -> None:
    lines = call("show", "fedavg").out.split("The server learns:\n")[1].splitlines()
    assert [line.split(":")[0] for line in lines[:2]] == [
        "  of each client",
        "  of each client, in its rounds",
    ]
    assert lines[2] == ""
    assert "its confusion counts" in call("show", "fedhoo").out


def test_validate_tells_the_plan_and_writes_nothing(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    experiment = write_tiny(tmp_path)
    monkeypatch.chdir(tmp_path)
    code, out, err = call("validate", experiment, "method=fedcm")
    assert (code, err) == (0, "")
    assert out.splitlines()[-1] == "valid"
    for words in (
        "digits",
        "10 classes",
        "4 of ",
        "2 per round",
        "mlp: 610 parameters",
        "fedcm",
        " on cpu: ",
    ):
        assert words in out
    assert [path.name for path in tmp_path.iterdir()] == ["tiny.toml"]


def test_run_leaves_a_numbered_folder_that_resume_takes(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    experiment = write_tiny(tmp_path)
    monkeypatch.chdir(tmp_path)
    code, out, err = call("run", experiment, "method=fedcm", "rounds=2")
    assert (code, err) == (0, "")
    folder = Path(out.splitlines()[-1])
    assert folder == Path("runs/001-fedcm-digits")
    assert "| fedcm" in out
    again = call("resume", folder, "--json")
    assert (again.code, again.err) == (0, "")
    assert result(json.loads(again.out)) == result(read_summary(folder))
    assert call("run", experiment, "rounds=1").out.splitlines()[-1] == "runs/002-fedavg-digits"


def test_a_run_says_once_how_its_data_was_prepared(tmp_path: Path) -> None:
    file = write_tiny(tmp_path, "rounds=1", "data.imbalance=100000")
    plan = call("validate", file).out.splitlines()
    notes = [line.removeprefix("note").strip() for line in plan if line.startswith("note ")]
    assert any("asked for: 100000" in note for note in notes)
    lines = call("run", file, "--out", tmp_path / "run").out.splitlines()
    assert lines[: len(notes)] == [f"note: {note}" for note in notes]
    assert not any("note: " in line for line in lines[len(notes) :])
    assert "note: " not in call("resume", tmp_path / "run", "rounds=2").out


def test_run_as_json_prints_the_summary_and_nothing_else(tmp_path: Path) -> None:
    code, out, err = call("run", write_tiny(tmp_path), "rounds=1", "--json", "--out", tmp_path / "run")
    assert (code, err) == (0, "")
    assert read_strictly(out) == read_summary(tmp_path / "run")


def test_replies_that_could_not_be_used_are_told(tmp_path: Path) -> None:
    first_round_explodes = ("rounds=3", "local.lr=1e30", "local.schedule={steps={at=[1], by=1e-31}}")
    code, _, err = call("run", write_tiny(tmp_path), *first_round_explodes, "--out", tmp_path / "run")
    assert code == 0
    assert err.startswith("note: 2 replies could not be used and 1 of 3 rounds were skipped; ")
    assert err.endswith("metrics.jsonl says why\n")


def test_options_may_stand_anywhere(tmp_path: Path) -> None:
    experiment = write_tiny(tmp_path)
    for number, order in enumerate((("--out", "{}", "rounds=1"), ("rounds=1", "--out", "{}"))):
        words = [word.format(tmp_path / str(number)) for word in order]
        assert call("run", "--json", experiment, *words).code == 0
    assert result(read_summary(tmp_path / "0")) == result(read_summary(tmp_path / "1"))


def test_a_second_run_in_the_same_folder_is_refused(tmp_path: Path) -> None:
    command = ("run", write_tiny(tmp_path), "rounds=1", "--out", tmp_path / "my run")
    assert call(*command).code == 0
    assert_refused(call(*command), 2, "holds a run already", f"resume '{tmp_path / 'my run'}'", "--out")
