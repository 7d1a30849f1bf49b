"""What can go wrong, each with the exit code of the command line."""

from __future__ import annotations

from collections.abc import Iterable
from difflib import get_close_matches


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
    """End of a sentence about a wrong word: the nearest legal one, then all of them."""
    legal = sorted(legal)
    near = get_close_matches(word, legal, n=1)
    guess = f"did you mean {near[0]!r}? " if near else ""
    return f"{guess}legal: {', '.join(legal)}"
