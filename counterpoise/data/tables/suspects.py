"""Columns that say which row it is rather than what it is like, found before an encoder is fitted."""

from __future__ import annotations

from collections.abc import Iterable
from typing import NamedTuple

import numpy as np

from counterpoise.data.tables.cells import Numbers, Table, is_missing, numbers_of
from counterpoise.data.tables.commas import decimal_commas
from counterpoise.data.tables.fit import is_numeric
from counterpoise.data.tables.identifiers import are_dates, judge_numbers, names_rows

FEW_KINDS = range(3, 11)  # different whole numbers that may be codes; two are the same either way


class Suspects(NamedTuple):
    """Names of columns -> why they say nothing about new rows, or why somebody should look at them."""

    left_out: dict[str, str]
    doubtful: dict[str, str]
    coded: list[str]  # whole numbers of few kinds, which may be amounts or only names


def suspects(table: Table, names: Iterable[str]) -> Suspects:
    """Columns to leave out of a first model, and columns to look at."""
    found = Suspects({}, {}, [])
    for name in names:
        filled = {cell for cell in table.columns[name] if not is_missing(cell)}
        if is_numeric(table, name):
            values = numbers_of(table, name)
            judged = judge_numbers(name, values)
            if judged is not None and judged.sure:
                found.left_out[name] = judged.what.removeprefix("has ")
            elif judged is not None:
                found.doubtful[name] = judged.what
            elif _few_kinds(values):
                found.coded.append(name)
        elif decimal_commas(filled) is not None:
            found.doubtful[name] = "looks like numbers with a decimal comma, read as words"
        elif are_dates(filled):
            found.left_out[name] = (
                f"{len(filled):,} different dates; data.time makes the latest rows the test set"
            )
        elif names_rows(filled, len(table.rows)):
            found.left_out[name] = f"{len(filled):,} different words in {len(table.rows):,} rows"
    return found


def _few_kinds(values: Numbers) -> bool:
    known = np.unique(values[~np.isnan(values)])
    return len(known) in FEW_KINDS and bool((known == np.round(known)).all())
