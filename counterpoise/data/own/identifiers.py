"""Columns of words that are hardly categories: nearly every row has its own, or they are numbers spelt with a comma."""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Collection, Iterator, Mapping

from counterpoise.data.own.cells import parse_number
from counterpoise.data.own.faults import brief

FEWEST = 10  # different words; of fewer nothing can be told
LIKE_NAMES = 0.5  # different words a row above which words name rows rather than kinds of them
DECIMAL_COMMA = re.compile(r"[+-]?\d+,\d+")


def drop_key(name: str) -> str:
    """In a config."""
    return f"drop = [{json.dumps(name, ensure_ascii=False)}]"


def identifier_notes(
    words: Mapping[str, Collection[str]], rows: int, drop: Callable[[str], str] = drop_key
) -> Iterator[str]:
    """A note on each column whose different words are no kinds of rows; `drop` says how to leave it out."""
    for name, different in words.items():
        trouble = _trouble(different, rows)
        if trouble:
            yield f"column {name!r} holds {len(different):,} different words in {rows:,} rows, each an input of its own: {trouble}; {drop(name)} leaves it out"


def decimal_commas(words: Collection[str]) -> str | None:
    """A word that shows it, where all are numbers and some have a decimal comma."""
    spelt = [word for word in words if DECIMAL_COMMA.fullmatch(word)]
    others = (word for word in words if not DECIMAL_COMMA.fullmatch(word))
    return min(spelt) if spelt and all(parse_number(word) is not None for word in others) else None


def _trouble(different: Collection[str], rows: int) -> str | None:
    example = decimal_commas(different)
    if example is not None:
        point = example.replace(",", ".")
        return f"they look like numbers with a decimal comma, such as {brief(example)}, and a number is read with a point, {point}"
    names_rows = len(different) >= FEWEST and len(different) > LIKE_NAMES * rows
    return "such words name rows and say nothing about new ones" if names_rows else None
