"""What can go wrong, each with the exit code of the command line."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from difflib import SequenceMatcher, get_close_matches

SHOWN_WORDS = 40


class CounterpoiseError(Exception):
    """Base of every error this package raises on purpose: one line that says what was given and what is legal."""

    exit_code = 4


class ConfigError(CounterpoiseError):
    """A config, an argument or a composition of parts that is not legal."""

    exit_code = 2


class DataError(CounterpoiseError):
    """A file or a row that cannot be used."""

    exit_code = 3


class RunError(CounterpoiseError):
    """A run that stopped before its end and can be resumed."""

    exit_code = 4


def legal_words(word: str, legal: Iterable[str]) -> str:
    """End of a sentence about a wrong word: the nearest legal one, then the legal ones."""
    names = sorted({*legal})
    near = get_close_matches(word, names, n=5)
    guess = max(near, key=lambda name: _nearness(name, word), default=None)
    return f"did you mean {guess!r}? legal: {listed(names)}" if guess else f"legal: {listed(names)}"


def listed(words: Sequence[str]) -> str:
    """Words between commas; of thousands, the first few and their number."""
    rest = f", ... ({len(words):,} in all)" if len(words) > SHOWN_WORDS else ""
    return ", ".join(words[:SHOWN_WORDS]) + rest


def _nearness(name: str, word: str) -> tuple[float, int]:
    """How much is shared; of words that share as much, how long they begin alike: fedcn is fedcm, not fedlc."""
    alike = next((k for k, (a, b) in enumerate(zip(name, word, strict=False)) if a != b), len(name))
    return SequenceMatcher(None, name, word).ratio(), alike
