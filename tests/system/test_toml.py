"""TOML: what is written is read back, what is put in from the command line lands where it says, and bombs are refused."""

from __future__ import annotations

import math
import time
import tomllib
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from counterpoise.errors import ConfigError
from counterpoise.system.toml import MAX_BYTES, MAX_DEPTH, override, parse_toml, read_toml, write_toml

WORDS = st.text(st.characters(exclude_categories=["Cs"]), max_size=12)
PLAIN = st.one_of(
    st.booleans(), st.integers(-(2**63), 2**63 - 1), st.floats(allow_nan=False, allow_infinity=False), WORDS
)
VALUES = st.recursive(
    PLAIN,
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(WORDS, inner, max_size=3),
    max_leaves=6,
)


@given(st.dictionaries(WORDS, VALUES, max_size=5))
def test_what_is_written_is_read_back(tables: dict[str, Any]) -> None:
    assert tomllib.loads(write_toml(tables)) == tables


@given(st.dictionaries(WORDS, VALUES, max_size=4))
def test_types_survive(tables: dict[str, Any]) -> None:
    # 1 == 1.0 == True, so that equality alone would not tell.
    assert repr(tomllib.loads(write_toml(tables))) == repr(_scalars_first(tables))


def _scalars_first(tables: dict[str, Any]) -> dict[str, Any]:
    return dict(sorted(tables.items(), key=lambda item: isinstance(item[1], dict)))


@given(st.floats())
def test_every_float_is_written_exactly(value: float) -> None:
    read = tomllib.loads(write_toml({"x": value}))["x"]
    assert math.isnan(read) if math.isnan(value) else repr(read) == repr(value)


def test_none_is_left_out() -> None:
    assert tomllib.loads(write_toml({"a": None, "t": {"b": None, "c": {"d": None, "e": 1}}})) == {
        "t": {"c": {"e": 1}}
    }


@pytest.mark.parametrize(
    ("assignment", "value"),
    [
        ("local.lr=0.05", {"local": {"lr": 0.05}}),
        ("seed=3", {"seed": 3}),
        ("seed=1_000", {"seed": 1000}),
        (" seed = 3 ", {"seed": 3}),
        ("method=fedcm", {"method": "fedcm"}),
        ("method='fedcm'", {"method": "fedcm"}),
        ('method=["fedavg", { focal = { gamma = 2.0 } }]', {"method": ["fedavg", {"focal": {"gamma": 2.0}}]}),
        ("method={ fedprox = { mu = 0.1 } }", {"method": {"fedprox": {"mu": 0.1}}}),
        ("method.fedprox.mu=0.1", {"method": {"fedprox": {"mu": 0.1}}}),
        ("model.hidden=[8, 4]", {"model": {"hidden": [8, 4]}}),
        ("engine.compile=true", {"engine": {"compile": True}}),
        ("data.root=/some/where", {"data": {"root": "/some/where"}}),
        ("data.root=../up", {"data": {"root": "../up"}}),
        ("data.root=2024-runs", {"data": {"root": "2024-runs"}}),
        ("a-b.c_d.9=x", {"a-b": {"c_d": {"9": "x"}}}),
        ("local.lr=1 # a remark", {"local": {"lr": 1}}),
    ],
)
def test_an_assignment_is_put_in(assignment: str, value: dict[str, Any]) -> None:
    assert override({}, assignment) == value


def test_an_assignment_changes_nothing_else() -> None:
    before = {"seed": 1, "local": {"lr": 0.1, "epochs": 2}, "method": "fedavg"}
    assert override(before, "local.lr=0.5") == {
        "seed": 1,
        "local": {"lr": 0.5, "epochs": 2},
        "method": "fedavg",
    }
    assert before["local"] == {"lr": 0.1, "epochs": 2}


def test_an_assignment_below_a_word_replaces_the_word() -> None:
    assert override({"method": "fedavg"}, "method.fedprox.mu=1.0") == {"method": {"fedprox": {"mu": 1.0}}}


def test_of_two_assignments_the_last_counts() -> None:
    assert override(override({}, "seed=1"), "seed=2") == {"seed": 2}


@pytest.mark.parametrize(
    "assignment",
    [
        "",
        "=",
        "=3",
        "seed",
        ".seed=3",
        "local..lr=3",
        "local.=3",
        "a b=3",
        "é=3",
        "seed=",
        "seed= ",
        "method=[fedavg]",
        "method=[1",
        "method={a",
        "method='open",
        "seed=1\nrounds=2",
        "seed=1 2",
        "data.root=\udcff",
        "method=" + "[" * 5000,
        ".".join("a" * (MAX_DEPTH + 1)) + "=1",
    ],
)
def test_what_is_no_assignment_is_refused_in_one_short_line(assignment: str) -> None:
    with pytest.raises(ConfigError) as caught:
        override({}, assignment)
    assert len(str(caught.value).splitlines()) == 1
    assert len(str(caught.value)) < 250
    str(caught.value).encode()


BOMBS = {
    "lists": "a = " + "[" * 100_000,
    "closed lists": "a = " + "[" * 200 + "]" * 200,
    "tables": "a = " + "{ b = " * 200 + "1" + " }" * 200,
    "dotted key": ".".join("a" * 100_000) + " = 1",
    "spaced key": " . ".join("a" * 50_000) + " = 1",
    "quoted key": ".".join(['"a"'] * 50_000) + " = 1",
    "header": "[" + ".".join("a" * 100_000) + "]",
    "inline dotted key": "a = { " + ".".join("a" * 50_000) + " = 1 }",
    "decimal": "a = 1" + "0" * 5000,
    "hexadecimal": "a = 0x1" + "0" * 5000,
    "beyond 64 bits": f"a = [1, {2**63}]",
    "nul": "a = 1\0",
    "open string": 'a = "' + "x" * 500_000,
}


@pytest.mark.parametrize("text", BOMBS.values(), ids=BOMBS)
def test_bombs_are_refused_at_once(text: str) -> None:
    began = time.monotonic()
    with pytest.raises(ConfigError, match=r"^bomb\.toml") as caught:
        parse_toml(text, "bomb.toml")
    assert time.monotonic() - began < 1
    assert len(str(caught.value).splitlines()) == 1


def test_long_but_plain_text_is_no_bomb() -> None:
    lines = [f"key{k} = 'a.b.c/../d.{k}'" for k in range(5000)]
    weights = "weights = [" + ", ".join("0.25" for _ in range(5000)) + "]"
    assert len(parse_toml("\n".join([weights, *lines]), "long.toml")) == 5001


def test_the_widest_whole_numbers_are_legal() -> None:
    assert parse_toml(f"a = {2**63 - 1}\nb = {-(2**63)}", "x")["a"] == 2**63 - 1


@pytest.mark.parametrize(
    ("content", "words"),
    [
        (bytes(range(256)), "not UTF-8 text"),
        ("a = 'é'".encode("latin-1"), "not UTF-8 text"),
        (b"#" * (MAX_BYTES + 1), "bytes: not an experiment"),
        (b"\xef\xbb\xbfa = 1", "not TOML"),
        (b"a = 1\na = 2", "not TOML"),
        (b"PK\x03\x04", "not TOML"),
    ],
)
def test_a_file_that_is_no_toml_is_refused_by_its_name(tmp_path: Path, content: bytes, words: str) -> None:
    path = tmp_path / "x.toml"
    path.write_bytes(content)
    with pytest.raises(ConfigError, match=words) as caught:
        read_toml(path)
    assert str(path) in str(caught.value)


@pytest.mark.parametrize(
    ("name", "words"),
    [
        ("missing.toml", "No such file"),
        (".", "Is a directory"),
        ("x" * 5000, "name too long"),
        ("file.toml/inside", "Not a directory"),
    ],
)
def test_what_is_no_file_is_refused(tmp_path: Path, name: str, words: str) -> None:
    (tmp_path / "file.toml").write_text("")
    with pytest.raises(ConfigError, match=words):
        read_toml(tmp_path / name)


def test_a_device_without_end_is_refused() -> None:
    with pytest.raises(ConfigError, match="not an experiment"):
        read_toml(Path("/dev/zero"))
