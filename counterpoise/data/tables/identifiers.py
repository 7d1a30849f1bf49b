"""Columns that identify rows: row numbers, and words that are nearly all different."""

from __future__ import annotations

import json
import re
from collections import Counter
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from typing import NamedTuple

import numpy as np

from counterpoise.data.tables.cells import Numbers, is_missing, is_nameless
from counterpoise.data.tables.commas import decimal_commas
from counterpoise.errors import short

FEWEST = 10  # different words; fewer are never reported
LIKE_NAMES = 0.5  # different words per row above which words are identifiers, not categories
WHOLE_NUMBER = re.compile(r"-?\d+")
# The index in files that pandas wrote: "Unnamed: 0", "Unnamed: 0.1" after a second time, "__index_level_0__".
PANDAS_INDEX = re.compile(r"Unnamed: 0(?:\.\d+)*|__index_level_\d+__")
# patient_id, PatientID, record no, MRN; not "humid" or "grid"
IDENTIFIER = re.compile(r"(?:^|[\W_]|(?<=[a-z])(?=[A-Z]))(?i:id|uuid|guid|mrn|nr|no|number|index|key)$")
DATE = re.compile(
    r"(?:\d{4}-\d\d?-\d\d?|\d\d?[./]\d\d?[./]\d{2,4})(?:[ T]\d.*)?"
)  # 2024-12-31, 31.12.2024, 12/31/24, with a time or without
INDEX_HINT = "name it, or write the file without an index, as with pandas' to_csv(..., index=False)"


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


class Judged(NamedTuple):
    """What is odd about a column of numbers, and whether it says nothing about new rows for sure."""

    what: str
    sure: bool = True


def judge_numbers(name: str, values: Numbers) -> Judged | None:
    """Row numbers by their values; identifiers by their name and whole numbers."""
    known = values[~np.isnan(values)]
    different = len(np.unique(known))
    if different < FEWEST or not (known == np.round(known)).all():
        return None
    every = different == len(values)  # a different one in each row, none missing
    if every and known.max() - known.min() == len(known) - 1:
        return Judged("counts the rows")
    if every and PANDAS_INDEX.fullmatch(name):
        return Judged("is an index that pandas wrote")
    if not IDENTIFIER.search(name):
        return None
    if every:
        return Judged("has a different whole number in each row, and the name of an identifier")
    return Judged("has the name of an identifier and is read as a number", sure=False)


def number_note(name: str, values: Numbers, drop: Callable[[str], str] = drop_key) -> str | None:
    """A note on a column of row numbers, which reveal the classes of a sorted file, or of identifiers."""
    judged = judge_numbers(name, values)
    if judged is None:
        return None
    what, quoted = judged.what, json.dumps(name, ensure_ascii=False)
    keep = f"numeric = [{quoted}] keeps it without this note"
    if not judged.sure:
        return f"column {name!r} {what}: {drop(name)} leaves it out, categorical = [{quoted}] reads it as words, {keep}"
    known = f"{np.nanmin(values):.0f} to {np.nanmax(values):.0f}"
    return f"column {name!r} {what}, {known}: such numbers say nothing about new rows, and give classes away where a file is sorted by them; {drop(name)} leaves it out, {keep}"


def gap_word_notes(name: str, cells: Sequence[str]) -> Iterator[str]:
    """A note on each class or client whose name is a word for a gap, as R writes NA."""
    counts = Counter(cell for cell in cells if is_missing(cell) and not is_nameless(cell))
    for word, count in counts.items():
        rows = f"{count:,} {'row' if count == 1 else 'rows'}"
        yield f"{name!r} is {word!r} in {rows}, taken as a name and not as a gap; leave these rows out of the file if nothing is known there"


def pandas_indices(columns: Mapping[str, Sequence[str]]) -> list[str]:
    """Columns that pandas wrote as an index, by their names and by different whole numbers in their cells."""
    return [name for name, cells in columns.items() if PANDAS_INDEX.fullmatch(name) and is_index(cells)]


def is_index(cells: Sequence[str]) -> bool:
    """Whether the cells are different whole numbers."""
    return len(set(cells)) == len(cells) and all(map(WHOLE_NUMBER.fullmatch, cells))


def _problem(different: Collection[str], rows: int) -> str | None:
    example = decimal_commas(different)
    if example is not None:
        point = example.replace(",", ".")
        return f"they look like numbers with a decimal comma, such as {short(example)}; write {point}, or divide the cells by semicolons"
    if are_dates(different):
        return "they look like dates, and say nothing about later ones"
    return "such words name rows and say nothing about new ones" if names_rows(different, rows) else None


def are_dates(words: Collection[str]) -> bool:
    """Whether all words are dates, and too many for categories."""
    return len(words) >= FEWEST and all(map(DATE.fullmatch, words))


def names_rows(different: Collection[str], rows: int) -> bool:
    """Whether so many words are different that they are no categories."""
    return len(different) >= FEWEST and len(different) > LIKE_NAMES * rows
