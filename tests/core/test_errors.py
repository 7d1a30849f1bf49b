"""The end of a sentence about a wrong word: what was meant, and what is legal."""

from __future__ import annotations

from collections.abc import Sequence

import pytest

from counterpoise.errors import SHOWN_WORDS, legal_words, listed


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
    assert legal_words(word, legal).startswith(f"did you mean {guess!r}? legal: ")


def test_without_a_near_word_nothing_is_guessed() -> None:
    assert legal_words("zzz", ["b", "a", "b"]) == "legal: a, b"
    assert legal_words("zzz", []) == "legal: "


def test_of_many_words_the_first_are_listed_and_all_are_counted() -> None:
    words = [f"w{number:04d}" for number in range(3000)]
    assert listed(words[:SHOWN_WORDS]) == ", ".join(words[:SHOWN_WORDS])
    assert listed(words).endswith(f"{words[SHOWN_WORDS - 1]}, ... (3,000 in all)")
    assert "did you mean 'w2999'? " in legal_words("w2999x", words)
