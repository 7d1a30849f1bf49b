"""A package that names its module under the entry point group, or a file that a variable names, is known in every process."""

from __future__ import annotations

import hashlib
import json
import os
import re
import shutil
from pathlib import Path

import pytest
from runs import call, finish, spawn, write_tiny
from sweeps import write_tiny_sweep

from counterpoise.errors import ConfigError
from counterpoise.registry.plugins import import_file, plugin_files

EXAMPLE = Path(__file__).parents[2] / "docs" / "examples" / "fedexp.py"


@pytest.fixture
def site(tmp_path: Path) -> Path:
    """A folder with the example and what pip would write beside it."""
    folder = tmp_path / "site"
    facts = folder / "fedexp-0.1.dist-info"
    facts.mkdir(parents=True)
    shutil.copy(EXAMPLE, folder / "fedexp.py")
    (facts / "METADATA").write_text("Metadata-Version: 2.1\nName: fedexp\nVersion: 0.1\n")
    (facts / "entry_points.txt").write_text("[counterpoise]\nfedexp = fedexp\n")
    return folder


def test_an_installed_method_runs_from_the_command_line(site: Path, tmp_path: Path) -> None:
    env = {"PYTHONPATH": str(site)}
    shown = finish(spawn("show", "fedexp", env=env))
    assert shown.code == 0, shown.err
    assert "fedexp  (methods)" in shown.out
    experiment = write_tiny(tmp_path, "engine={name='loop', processes=2}")
    ran = finish(spawn("run", experiment, "method=['fedexp', 'focal']", "--out", tmp_path / "run", env=env))
    assert ran.code == 0, ran.err
    assert (tmp_path / "run" / "summary.json").exists()
    assert json.loads((tmp_path / "run" / "record.json").read_text())["versions"]["fedexp"] == "0.1"


def test_a_run_goes_on_beside_a_new_plugin_and_not_without_its_own(site: Path, tmp_path: Path) -> None:
    env = {"PYTHONPATH": str(site)}
    plain = ("run", write_tiny(tmp_path, "rounds=2"), "--out", tmp_path / "plain")
    assert finish(spawn(*plain)).code == 0
    assert finish(spawn(*plain[:2], "--out", tmp_path / "own", env=env)).code == 0
    for folder in ("plain", "own"):
        (tmp_path / folder / "summary.json").unlink()
    assert finish(spawn("resume", tmp_path / "plain", env=env)).code == 0
    ended = finish(spawn("resume", tmp_path / "own"))
    assert ended.code == 2
    assert "fedexp was '0.1' and is None" in ended.err


def test_without_it_the_name_is_unknown(tmp_path: Path) -> None:
    ended = finish(spawn("show", "fedexp"))
    assert ended.code == 2
    assert "nothing is called 'fedexp'" in ended.err


def test_a_plugin_that_fails_is_named_in_one_line(site: Path) -> None:
    (site / "fedexp.py").write_text("import not_there\n")
    ended = finish(spawn("ls", "methods", env={"PYTHONPATH": str(site)}))
    assert ended.code == 2
    assert len(ended.err.splitlines()) == 1
    assert "the installed plugin 'fedexp' (fedexp) cannot be loaded: ModuleNotFoundError" in ended.err


def test_a_file_of_ones_own_runs_from_the_command_line_and_must_stay_the_same(tmp_path: Path) -> None:
    own = tmp_path / "fedexp.py"
    shutil.copy(EXAMPLE, own)
    env = {"COUNTERPOISE_PLUGINS": str(own)}
    experiment = write_tiny(tmp_path, "rounds=2", "engine={name='loop', processes=2}")
    ran = finish(spawn("run", experiment, "method=fedexp", "--out", tmp_path / "run", env=env))
    assert ran.code == 0, ran.err
    seen = json.loads((tmp_path / "run" / "record.json").read_text())["versions"]["fedexp.py"]
    assert seen == hashlib.sha256(own.read_bytes()).hexdigest()[:16]

    own.write_text(own.read_text() + "\n# changed\n")
    (tmp_path / "run" / "summary.json").unlink()
    ended = finish(spawn("resume", tmp_path / "run", env=env))
    assert ended.code == 2
    assert f"fedexp.py was '{seen}'" in ended.err


def test_a_sweep_knows_a_file_of_ones_own_in_its_workers(tmp_path: Path) -> None:
    env = {"COUNTERPOISE_PLUGINS": str(EXAMPLE)}
    sweep = write_tiny_sweep(tmp_path, methods=["fedavg", "fedexp"])
    ran = finish(spawn("compare", sweep, "--processes", 2, "--out", tmp_path / "out", env=env))
    assert ran.code == 0, ran.err
    assert (tmp_path / "out" / "runs" / "fedexp-seed1" / "summary.json").exists()


def test_a_table_of_runs_says_that_their_method_has_changed_since(tmp_path: Path) -> None:
    """Whoever changed it and compared again saw the old numbers, without a word."""
    own = tmp_path / "fedexp.py"
    shutil.copy(EXAMPLE, own)
    sweep = write_tiny_sweep(tmp_path, methods=["fedavg", "fedexp"])
    again = ("compare", sweep, "--processes", 1, "--out", tmp_path / "out")
    env = {"COUNTERPOISE_PLUGINS": str(own)}
    assert "has changed" not in finish(spawn(*again, env=env)).out
    own.write_text(own.read_text() + "\n# changed\n")
    words = "fedexp.py has changed since 4 of 4 runs were made, which stay as they are"
    assert words in finish(spawn(*again, env=env)).out
    assert words in (tmp_path / "out" / "table.md").read_text()


def test_a_plugin_file_that_is_not_there_is_named(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("COUNTERPOISE_PLUGINS", f"{EXAMPLE}{os.pathsep}{tmp_path / 'gone.py'}")
    with pytest.raises(ConfigError, match=r"COUNTERPOISE_PLUGINS must name Python files.*gone\.py"):
        plugin_files()


def test_a_file_given_as_a_method_is_told_how_to_use_it(tmp_path: Path) -> None:
    code, _, err = call("run", write_tiny(tmp_path), "method=own.py:mine", "--out", tmp_path / "run")
    assert code == 2
    assert "for 'mine' of your own file set COUNTERPOISE_PLUGINS=own.py and name it mine" in err


def test_a_file_that_fails_is_not_taken_for_loaded(tmp_path: Path) -> None:
    own = tmp_path / "half_a_plugin.py"
    own.write_text("first = 1\nraise ValueError('broken')\n")
    for _ in range(2):
        with pytest.raises(ValueError, match="broken"):
            import_file(own)
    own.write_text("first = 1\nsecond_one_is_here = 2\n")
    assert import_file(own).second_one_is_here == 2
    assert import_file(own) is import_file(own)


def test_two_plugin_files_of_one_name_are_refused(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A record names a file by its name: of two, the hash of one would be lost."""
    places = [tmp_path / "a" / "mine.py", tmp_path / "b" / "mine.py"]
    for place in places:
        place.parent.mkdir()
        place.write_text("")
    monkeypatch.setenv("COUNTERPOISE_PLUGINS", os.pathsep.join(map(str, places)))
    with pytest.raises(ConfigError, match=r"COUNTERPOISE_PLUGINS names two files 'mine\.py'; rename one"):
        plugin_files()
    monkeypatch.setenv("COUNTERPOISE_PLUGINS", os.pathsep.join([str(places[0])] * 2))
    assert plugin_files() == places[:1]


MISTAKES = {
    "los=": ("@part()", "return Part(los=None)", "part mine cannot be built: TypeError: .*'los'"),
    "no return": ("@part()", "Part()", "part mine must return a Part, not None"),
    "a list": ("@method()", "return [Part()]", r"method mine must return a Method, not \[Part"),
    "bare part": (
        "@part",
        "return Part()",
        r"the decorator of part mine needs parentheses, such as \('mine'\)",
    ),
    "bare method": ("@method", "return Method()", "the decorator of method mine needs parentheses"),
}


@pytest.mark.parametrize("mistake", MISTAKES)
def test_a_mistake_in_a_factory_is_told_as_one(mistake: str, tmp_path: Path) -> None:
    """Not as a failure of the package, which asks to be reported."""
    decorator, body, words = MISTAKES[mistake]
    own = tmp_path / "mine.py"
    own.write_text(
        "from counterpoise.core.method import Method, method, part\nfrom counterpoise.core.part import Part\n"
        f"{decorator}\ndef mine():\n    {body}\n"
    )
    run = spawn("validate", write_tiny(tmp_path), "method=['mine']", env={"COUNTERPOISE_PLUGINS": str(own)})
    ended = finish(run)
    assert ended.code == 2
    assert re.search(words, ended.err), ended.err
    assert len(ended.err.splitlines()) == 1
