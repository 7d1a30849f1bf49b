"""The end of a sentence about a wrong word: what was meant, and what there is."""

from __future__ import annotations

import ast
import errno
import re
from collections.abc import Sequence
from pathlib import Path

import pytest

import counterpoise
from counterpoise.errors import (
    SHOWN_CHARACTERS,
    SHOWN_OF_A_LINE,
    SHOWN_OF_A_PATH,
    SHOWN_WORDS,
    few_digits,
    is_out_of_memory,
    legal_words,
    listed,
    one_line,
    printable,
    short,
)


@pytest.mark.parametrize(
    ("word", "legal", "guess"),
    [
        ("fedcn", ["fedcm", "fedlc", "fedavg"], "fedcm"),
        ("fedcn", ["fedlc", "fedavg", "fedcm"], "fedcm"),
        ("fedvag", ["fedavg", "fedavgm"], "fedavg"),
        ("lrr", ["lr", "epochs"], "lr"),
        ("fedcm", ["xfedcm", "fedcmx"], "fedcmx"),
    ],
)
def test_the_nearest_word_is_guessed_and_of_several_the_one_that_begins_alike(
    word: str, legal: Sequence[str], guess: str
) -> None:
    assert legal_words(word, legal).startswith(f"did you mean {guess!r}? one of ")


def test_without_a_near_word_nothing_is_guessed() -> None:
    assert legal_words("zzz", ["b", "a", "b"]) == "one of a, b"
    assert legal_words("zzz", []) == "there are none"


def test_of_many_words_the_first_are_listed_and_all_are_counted() -> None:
    words = [f"w{number:04d}" for number in range(3000)]
    assert listed(words[:SHOWN_WORDS]) == ", ".join(words[:SHOWN_WORDS])
    assert listed(words).endswith(f"{words[SHOWN_WORDS - 1]}, ... (3,000 in all)")
    assert legal_words("w2999x", words) == "did you mean 'w2999'?"
    assert legal_words("zzz", words) == f"one of {listed(words)}"


@pytest.mark.parametrize(
    ("number", "text"),
    [
        (0.01234, "0.0123"),
        (1.0, "1"),
        (12.34, "12.3"),
        (999.4, "999"),
        (999.6, "1,000"),
        (1234567.8, "1,234,568"),
    ],
)
def test_large_numbers_are_whole_and_no_power_of_ten(number: float, text: str) -> None:
    assert few_digits(number) == text


def test_with_a_command_that_lists_them_only_few_words_are_listed() -> None:
    few, many = [f"w{k}" for k in range(12)], [f"w{k}" for k in range(13)]
    assert legal_words("x", few, "counterpoise ls models") == f"one of {', '.join(sorted(few))}"
    assert legal_words("w1x", many, "counterpoise ls models").endswith("? `counterpoise ls models` lists all")


def test_values_are_quoted_and_long_ones_lose_their_middle() -> None:
    assert short("x") == "'x'"
    assert short([1, "a"]) == "[1, 'a']"
    assert short("a" * 300_000) == "'" + "a" * 37 + " ... " + "a" * 36 + "'"
    assert len(short({"k": "v" * 300_000})) == SHOWN_CHARACTERS


def test_paths_are_shown_as_they_are_with_more_of_them() -> None:
    assert short(Path("/a b/c.toml")) == "/a b/c.toml"
    long = short(Path("/first" + "/x" * 2000 + "/last.toml"))
    assert len(long) == SHOWN_OF_A_PATH
    assert long.startswith("/first/x")
    assert long.endswith("/x/last.toml")


class Silent:
    def __repr__(self) -> str:
        raise RuntimeError("no")


@pytest.mark.parametrize("value", [10**5000, Silent()], ids=["digits", "object"])
def test_values_that_cannot_be_written_are_told_by_their_type(value: object) -> None:
    assert short(value) == f"a value of type {type(value).__name__}"


def test_long_words_are_listed_within_bounds() -> None:
    assert len(listed(["x" * 1000] * 1000)) < 1000
    assert legal_words("y" * 300_000, ["x" * 1000]) == f"only {listed(['x' * 1000])}"


@pytest.mark.parametrize(
    ("text", "shown"),
    [
        ("\x1b[31mred", "\\u001b[31mred"),
        ("a\rb\x00\x7f\x9b", "a\\u000db\\u0000\\u007f\\u009b"),
        ("\u202egnp", "\\u202egnp"),
        ("\u2066x\u2069", "\\u2066x\\u2069"),
        ("\udcff", "\\xff"),
        ("\ud800", "\\ud800"),
        ("tab\tline\n é ✓ שלום", "tab\tline\n é ✓ שלום"),
    ],
)
def test_what_a_terminal_would_obey_is_shown_instead(text: str, shown: str) -> None:
    assert printable(text) == shown
    assert printable(shown) == shown


def test_a_message_is_one_line_of_bounded_length() -> None:
    assert one_line("a\nb\x1b") == "a b\\u001b"
    assert len(one_line("x" * 300_000)) == SHOWN_OF_A_LINE


@pytest.mark.parametrize(
    "error",
    [
        MemoryError(),
        OSError(errno.ENOMEM, "Cannot allocate memory"),
        RuntimeError("[enforce fail at alloc_cpu.cpp] DefaultCPUAllocator: can't allocate memory: 99 bytes"),
        RuntimeError("can't start new thread"),
        RuntimeError("std::bad_alloc"),
        ImportError("libtorch_cpu.so: failed to map segment from shared object"),
    ],
    ids=str,
)
def test_a_lack_of_memory_is_known_in_all_its_forms(error: Exception) -> None:
    assert is_out_of_memory(error)
    assert not is_out_of_memory(RuntimeError("shape mismatch"))


def _seen_texts(source: str) -> list[str]:
    """Every text of a module but its first lines, which only readers of the code see."""
    module = ast.parse(source)
    return [
        node.value
        for statement in module.body[1:]
        for node in ast.walk(statement)
        if isinstance(node, ast.Constant) and isinstance(node.value, str)
    ]


def test_no_text_that_users_see_names_a_paper_by_a_number_of_ours() -> None:
    package = Path(counterpoise.__file__).parent
    texts = [text for path in package.rglob("*.py") for text in _seen_texts(path.read_text())]
    assert len(texts) > 1000
    assert [text for text in texts if re.search(r"\bspec \d|\bpaper \d", text)] == []
