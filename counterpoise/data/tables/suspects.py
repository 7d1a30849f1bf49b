"""Columns that say which row it is rather than what it is like, found before an encoder is fitted."""

from __future__ import annotations

from collections.abc import Iterable
from typing import NamedTuple

from counterpoise.data.tables.cells import Table, is_missing, numbers_of
from counterpoise.data.tables.fit import is_numeric
from counterpoise.data.tables.identifiers import decimal_commas, judge_numbers, names_rows


class Suspects(NamedTuple):
    """Names of columns -> why they say nothing about new rows, or why somebody should look at them."""

    left_out: dict[str, str]
    doubtful: dict[str, str]


def suspects(table: Table, names: Iterable[str]) -> Suspects:
    """Columns to leave out of a first model, and columns to look at."""
    found = Suspects({}, {})
    for name in names:
        filled = {cell for cell in table.columns[name] if not is_missing(cell)}
        if is_numeric(table, name):
            judged = judge_numbers(name, numbers_of(table, name))
            if judged is not None and judged.sure:
                found.left_out[name] = judged.what.removeprefix("has ")
            elif judged is not None:
                found.doubtful[name] = judged.what
        elif decimal_commas(filled) is not None:
            found.doubtful[name] = "looks like numbers with a decimal comma, read as words"
        elif names_rows(filled, len(table.rows)):
            found.left_out[name] = f"{len(filled):,} different words in {len(table.rows):,} rows"
    return found
