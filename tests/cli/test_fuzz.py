"""Random experiment files and command lines: none ends in a traceback, and what is illegal is told in one line that names the key."""

from __future__ import annotations

import random
import time
from collections import Counter
from pathlib import Path
from typing import Any

import pytest
from fuzzed import COSTLY_COMMANDS, commands, examples, random_command, random_experiment
from runs import Finished, call, write_tiny

FEW, ALL = 300, 10_000
SECONDS = 2.0  # of work, whatever else the machine does meanwhile
BYTES = 2000  # of an error


def assert_told(finished: Finished, given: object) -> None:
    """One line, not a word of surprise, and an exit code that says whose fault it is."""
    assert finished.code in (2, 3, 4), (given, finished)
    assert finished.err.startswith("error: "), (given, finished.err)
    assert finished.err.count("\n") == 1, (given, finished.err)
    assert len(finished.err.encode()) < BYTES, (given, finished.err)
    assert "should not happen" not in finished.err, (given, finished.err)


def check_experiment(folder: Path, seed: int, known: list[dict[str, Any]]) -> int:
    fuzzed = random_experiment(random.Random(seed), known)
    path = folder / "fuzzed.toml"
    path.write_bytes(fuzzed.content)
    began = time.process_time()
    finished = call("validate", path)
    assert time.process_time() - began < SECONDS, (seed, fuzzed, finished)
    if finished.code == 0:
        assert (finished.out.splitlines()[-1], finished.err) == ("valid", ""), (seed, fuzzed)
        return 0
    assert_told(finished, (seed, fuzzed))
    assert finished.code in (2, 3), (seed, fuzzed, finished)
    assert not fuzzed.keys or any(key and key in finished.err for key in fuzzed.keys) or "not TOML" in finished.err, (seed, fuzzed, finished.err)  # fmt: skip
    return finished.code


def check_command(seed: int, known: dict[tuple[str, ...], Any]) -> int:
    given = random_command(random.Random(seed), known)
    began = time.process_time()
    finished = call(*given)
    assert time.process_time() - began < SECONDS, (seed, given, finished)
    if finished.code != 0 and finished.err:  # without a word only where help is shown
        assert_told(finished, (seed, given))
    assert finished.code != 0 or not COSTLY_COMMANDS & {*given[:2]} or "Usage" in finished.out, (seed, given)
    return finished.code


@pytest.fixture
def desk(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A folder with a file of each kind, from where no path of a random command leads far."""
    folder = tmp_path / "a" / "b"
    (folder / "folder").mkdir(parents=True)
    write_tiny(folder, "rounds=1")
    (folder / "bad.toml").write_text("rounds = 'x'\n")
    (folder / "sweep.toml").write_text('methods = ["fedavg"]\nseeds = 1\n[base]\nrounds = 1\n')
    (folder / "t.csv").write_text("a,y\n" + "".join(f"{k},{'ab'[k % 2]}\n" for k in range(40)))
    monkeypatch.chdir(folder)
    monkeypatch.setenv("HOME", str(tmp_path))
    monkeypatch.setenv("COUNTERPOISE_DATA", str(tmp_path / "none"))
    return folder


def test_random_experiments_are_legal_or_refused_by_key(tmp_path: Path) -> None:
    known = examples()
    codes = Counter(check_experiment(tmp_path, seed, known) for seed in range(FEW))
    assert codes[2] > FEW / 2
    assert codes[0]


def test_random_commands_are_done_or_refused_in_one_line(desk: Path) -> None:
    known = commands()
    codes = Counter(check_command(seed, known) for seed in range(FEW))
    assert codes[2] > FEW / 2
    assert codes[0]


@pytest.mark.faults
def test_ten_thousand_random_experiments_are_legal_or_refused_by_key(tmp_path: Path) -> None:
    known = examples()
    for seed in range(FEW, FEW + ALL):
        check_experiment(tmp_path, seed, known)


@pytest.mark.faults
def test_ten_thousand_random_commands_are_done_or_refused_in_one_line(desk: Path) -> None:
    known = commands()
    for seed in range(FEW, FEW + ALL):
        check_command(seed, known)


BOMBS = {
    "aliases, as of YAML": "a: &a [x,x,x,x,x,x,x,x,x]\n" + "".join(f"{b}: &{b} [*{a},*{a},*{a},*{a},*{a},*{a}]\n" for a, b in zip("abcdefghi", "bcdefghij", strict=True)),
    "lists, 10,000 deep": "a = " + "[" * 10_000 + "]" * 10_000,
    "tables, 10,000 deep": "a = " + "{a = " * 10_000 + "1" + "}" * 10_000,
    "keys, 10,000 deep": ".".join("a" * 10_000) + " = 1",
    "quoted keys, 10,000 deep": ".".join(["'a'"] * 10_000) + " = 1",
    "a table, 10,000 deep": f"[{'.'.join('a' * 10_000)}]",
    "lists, 33 deep": "rounds = " + "[" * 33 + "]" * 33,
    "many keys": "\n".join(f"k{number} = 1" for number in range(20_000)),
    "many tables": "\n".join(f"[[k]]\n[k.a{number}]" for number in range(10_000)),
    "many digits": "rounds = " + "9" * 500_000,
}  # fmt: skip


SOON = 5.0  # seconds of the processor; it takes less than one, on a machine with nothing else to do


@pytest.mark.parametrize("text", BOMBS.values(), ids=list(BOMBS))
def test_a_bomb_is_refused_at_once(tmp_path: Path, text: str) -> None:
    (tmp_path / "bomb.toml").write_text(text)
    call("validate", write_tiny(tmp_path), "rounds='x'")  # imports are not what is measured
    began = time.process_time()
    finished = call("validate", tmp_path / "bomb.toml")
    assert time.process_time() - began < SOON
    assert finished.code == 2
    assert_told(finished, text[:40])


def test_a_file_of_a_hundred_megabytes_is_refused_within_a_second(tmp_path: Path) -> None:
    path = tmp_path / "large.toml"
    with path.open("wb") as stream:
        stream.truncate(100_000_000)
    began = time.process_time()
    assert_told(call("validate", path), "100 MB")
    assert time.process_time() - began < 1
