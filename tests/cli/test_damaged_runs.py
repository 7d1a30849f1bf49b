"""A run with a damaged file is named and left out by every command that reads runs, and hides no other."""

from __future__ import annotations

import json
import random
import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from runs import Finished, call, read_strictly, tiny

from counterpoise.core.method import build_method
from counterpoise.errors import CounterpoiseError
from counterpoise.results.results import RunResult, read_result
from counterpoise.run.config.experiment import binding
from counterpoise.run.runner import start
from counterpoise.run.store.folder import RunFolder
from counterpoise.system.toml import read_toml, write_toml

FILES = ("config.toml", "metrics.jsonl", "timing.jsonl", "record.json", "summary.json")
POISON: list[Any] = [
    "x", "", [], {}, None, True, -1, 0, 7, 10**400, 1e308, -0.5, float("nan"), float("inf"), [[]],
    {"a": {}}, [None], "9" * 5000, {"": 1}, ["\ud800"],
]  # fmt: skip
CONTENTS = (
    b"",
    b"\n",
    b"{}",
    b"{}\n",
    b"null",
    b"[]",
    b"3\n",
    b"\xff\xfe",
    b"[" * 100_000,
    b'{"a"',
    b"\0" * 99,
)


@pytest.fixture(scope="module")
def whole(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Two finished runs that no test changes, and one to be damaged."""
    base = tmp_path_factory.mktemp("whole") / "runs"
    for name, method in {"a": "fedavg", "b": "fedcm", "c": "fedprox"}.items():
        start(tiny(f"method={method}", "rounds=3", "evaluate.every=2"), base / name)
        shutil.rmtree(base / name / "checkpoints" / "blobs")  # no reader looks at them
    return base


@pytest.fixture
def runs(whole: Path, tmp_path: Path) -> Path:
    return shutil.copytree(whole, tmp_path / "runs")


def lost_everything(content: bytes, draw: random.Random) -> bytes:
    return draw.choice(CONTENTS)


def cut(content: bytes, draw: random.Random) -> bytes:
    return content[: draw.randrange(len(content))]


def flipped(content: bytes, draw: random.Random) -> bytes:
    place = draw.randrange(len(content))
    return content[:place] + bytes([content[place] ^ 1 << draw.randrange(8)]) + content[place + 1 :]


def another_digit(content: bytes, draw: random.Random) -> bytes:
    place = draw.choice([place for place, byte in enumerate(content) if chr(byte).isdigit()])
    digit = draw.choice([digit for digit in b"0123456789" if digit != content[place]])
    return content[:place] + bytes([digit]) + content[place + 1 :]


def overwritten(content: bytes, draw: random.Random) -> bytes:
    place, length = draw.randrange(len(content)), draw.randrange(1, 40)
    return content[:place] + draw.randbytes(length) + content[place + length :]


def other_lines(content: bytes, draw: random.Random) -> bytes:
    """A line twice, gone, or in another place."""
    lines = content.splitlines(keepends=True)
    line = lines[draw.randrange(len(lines))]
    lines.insert(draw.randrange(len(lines)), line)
    if draw.random() < 0.6:
        lines.remove(line)
    return b"".join(lines if draw.random() < 0.8 else [one for one in lines if one != line])


BYTES: tuple[Callable[[bytes, random.Random], bytes], ...] = (
    lost_everything, cut, flipped, another_digit, overwritten, other_lines,
)  # fmt: skip


def other_value(tree: Any, draw: random.Random) -> None:
    """Somewhere in a tree a key goes, or its value is something else."""
    while True:
        keys = list(tree) if isinstance(tree, dict) else list(range(len(tree)))
        key = draw.choice(keys)
        if isinstance(tree[key], dict | list) and tree[key] and draw.random() < 0.6:
            tree = tree[key]
            continue
        if draw.random() < 0.3:
            del tree[key]
        else:
            tree[key] = draw.choice(POISON)
        return


def with_other_value(path: Path, draw: random.Random) -> bytes:
    if path.suffix == ".toml":
        tables = read_toml(path)
        other_value(tables, draw)
        try:
            return write_toml(tables).encode()
        except (TypeError, ValueError, OverflowError, CounterpoiseError):  # what TOML cannot say
            return b"seed = 'x'\n" + path.read_bytes()
    if path.suffix == ".json":
        content = json.loads(path.read_bytes())
        other_value(content, draw)
        return json.dumps(content, indent=2).encode()
    rows = [json.loads(line) for line in path.read_bytes().splitlines()]
    other_value(rows, draw)
    return b"".join(json.dumps(row).encode() + b"\n" for row in rows)


def damage(run: Path, draw: random.Random) -> str:
    """One file of a run is not what it was; which, and how."""
    path = run / draw.choice([name for name in FILES if (run / name).exists()])
    content = path.read_bytes()
    kind = draw.choice(["another value", *BYTES, "another value"])
    path.write_bytes(with_other_value(path, draw) if isinstance(kind, str) else kind(content, draw))
    return f"{path.name}: {kind if isinstance(kind, str) else kind.__name__}"


def what_it_says(result: RunResult) -> list[Any]:
    """All that a reader takes from a run, but for what of the config may change without changing the run."""
    summary = {key: value for key, value in (result.summary or {}).items() if key != "sha256"}
    record = {key: value for key, value in result.record.items() if key != "sha256"}
    return [binding(result.config), record, result.rows, result.seconds, summary]


def trusted(path: Path) -> RunResult | None:
    try:
        return read_result(path)
    except CounterpoiseError:
        return None


def knows_method(spec: Any) -> bool:
    try:
        return bool(build_method(spec).name)
    except CounterpoiseError:
        return False


def check_listed(runs: Path, sound: bool) -> Finished:
    ended = call("ls", "runs", runs, "--json")
    assert ended.code == 0
    states = {Path(run["folder"]).name: run["state"] for run in read_strictly(ended.out)}
    assert (states["a"], states["b"]) == ("done", "done")
    assert (states["c"] == "unreadable") == (not sound)
    text = call("ls", "runs", runs)
    assert text.code == 0
    assert sound or f"{runs / 'c'}" in text.out.splitlines()[-1]
    return text


def check_watched(runs: Path, sound: bool) -> Finished:
    ended = call("watch", runs, "--once")
    assert ended.code == 0
    assert len([line for line in ended.out.splitlines() if line.split()[1:2] == ["done"]]) == 2 + (
        sound and RunFolder(runs / "c").summary.exists()
    )
    assert sound or ("1 unreadable" in ended.out and str(runs / "c") in ended.out)
    return ended


def check_reported(runs: Path, sound: bool) -> Finished:
    ended = call("report", runs, "--out", runs.parent / "report.html")
    assert ended.code == 0
    page = (runs.parent / "report.html").read_text()
    assert "fedavg" in page
    assert "fedcm" in page
    assert str(runs / "c") in page
    assert sound or "Runs that are not in the tables" in page
    return ended


def check_compared(runs: Path, sound: bool) -> Finished:
    ended = call("diff", runs / "a", runs / "c")
    assert ended.code in ((0,) if sound else (2, 3))
    assert sound or (str(runs / "c") in ended.err and len(ended.err.splitlines()) == 1)
    return ended


READERS = (check_listed, check_watched, check_compared, check_reported)


def check_damage(runs: Path, whole: Path, number: int, readers: Any, stopped: bool) -> None:
    """One damage: nobody falls over it, and a finished run that says anything else than it did is not believed."""
    draw, run = random.Random(number), runs / "c"
    shutil.rmtree(run)
    shutil.copytree(whole / "c", run)
    if stopped:
        (run / "summary.json").unlink()
    before = what_it_says(read_result(run))
    said = damage(run, draw)
    result = trusted(run)
    if result is not None and not stopped:
        assert what_it_says(result) == before, (number, said)
    for check in readers:
        try:
            # Two runs may be told apart without knowing what their methods do.
            ended = check(
                runs,
                result is not None and (check is check_compared or knows_method(result.config["method"])),
            )
        except AssertionError as error:
            raise AssertionError(f"{number}, {said}, {check.__name__}: {error}") from error
        assert "Traceback" not in ended.err, (number, said)
        assert "should not happen" not in ended.err, (number, said)


@pytest.mark.parametrize("stopped", [False, True], ids=["finished", "stopped"])
@pytest.mark.parametrize("check", READERS, ids=[check.__name__ for check in READERS])
def test_a_damaged_run_is_named_and_the_others_are_shown(
    runs: Path, whole: Path, check: Any, stopped: bool
) -> None:
    for number in range(40):
        check_damage(runs, whole, number, [check], stopped)


@pytest.mark.parametrize("name", FILES)
def test_a_file_that_cannot_be_opened_hides_no_other_run(runs: Path, name: str) -> None:
    (runs / "c" / name).unlink()
    (runs / "c" / name).mkdir()
    for check in READERS:
        assert "should not happen" not in check(runs, False).err


@pytest.mark.faults
@pytest.mark.parametrize("part", range(8))
def test_two_thousand_damaged_runs_are_named_and_the_others_are_shown(
    runs: Path, whole: Path, part: int
) -> None:
    for number in range(1000 + 300 * part, 1000 + 300 * (part + 1)):
        check_damage(runs, whole, number, READERS, stopped=number % 3 == 0)
