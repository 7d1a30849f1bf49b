"""Columns that identify rows (row numbers, words that are nearly all different), and decimal commas."""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence

import numpy as np

from counterpoise.data.tables.cells import Numbers, parse_number
from counterpoise.errors import short

FEWEST = 10  # different words; fewer are never reported
LIKE_NAMES = 0.5  # different words per row above which words are identifiers, not categories
WHOLE_NUMBER = re.compile(r"-?\d+")
PANDAS_INDEX = frozenset({"Unnamed: 0", "__index_level_0__"})  # the index column in files that pandas wrote
INDEX_HINT = "name it, or write the file without an index, as with pandas' to_csv(..., index=False)"
DECIMAL_COMMA = re.compile(r"[+-]?\d+,\d+")


def drop_key(name: str) -> str:
    """The config key that leaves a column out."""
    return f"drop = [{json.dumps(name, ensure_ascii=False)}]"


def identifier_notes(
    words: Mapping[str, Collection[str]], rows: int, drop: Callable[[str], str] = drop_key
) -> Iterator[str]:
    """A note on each column of words that are no categories; `drop` says how to leave it out."""
    for name, different in words.items():
        problem = _problem(different, rows)
        if problem:
            yield f"column {name!r} holds {len(different):,} different words in {rows:,} rows, each an input of its own: {problem}; {drop(name)} leaves it out"


def number_note(name: str, values: Numbers, drop: Callable[[str], str] = drop_key) -> str | None:
    """A note on a column of row numbers, which reveal the classes of a sorted file."""
    if len(values) < FEWEST or not (values == np.round(values)).all() or len(np.unique(values)) < len(values):
        return None
    counts = values.max() - values.min() == len(values) - 1
    if not counts and name not in PANDAS_INDEX:
        return None
    what = "counts the rows" if counts else "is an index that pandas wrote"
    keep = f"numeric = [{json.dumps(name, ensure_ascii=False)}]"
    return f"column {name!r} {what}, {values.min():.0f} to {values.max():.0f}: such numbers say nothing about new rows, and give classes away where a file is sorted by them; {drop(name)} leaves it out, {keep} keeps it without this note"


def is_index(cells: Sequence[str]) -> bool:
    """Whether the cells are different whole numbers."""
    return len(set(cells)) == len(cells) and all(map(WHOLE_NUMBER.fullmatch, cells))


def decimal_commas(words: Collection[str]) -> str | None:
    """An example, where all words are numbers and some have a decimal comma."""
    with_comma = [word for word in words if DECIMAL_COMMA.fullmatch(word)]
    others = (word for word in words if not DECIMAL_COMMA.fullmatch(word))
    return min(with_comma) if with_comma and all(parse_number(word) is not None for word in others) else None


def _problem(different: Collection[str], rows: int) -> str | None:
    example = decimal_commas(different)
    if example is not None:
        point = example.replace(",", ".")
        return f"they look like numbers with a decimal comma, such as {short(example)}, and a number is read with a point, {point}"
    return "such words name rows and say nothing about new ones" if names_rows(different, rows) else None


def names_rows(different: Collection[str], rows: int) -> bool:
    """Whether so many words are different that they are no categories."""
    return len(different) >= FEWEST and len(different) > LIKE_NAMES * rows
