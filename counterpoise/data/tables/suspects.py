"""Columns that say which row it is rather than what it is like, found before an encoder is fitted."""

from __future__ import annotations

import re
from collections.abc import Iterable
from typing import NamedTuple

import numpy as np

from counterpoise.data.tables.cells import Table, is_missing, numbers_of
from counterpoise.data.tables.fit import is_numeric
from counterpoise.data.tables.identifiers import FEWEST, decimal_commas, names_rows, number_note

# patient_id, PatientID, record no, MRN; not "humid" or "grid"
IDENTIFIER = re.compile(r"(?:^|[\W_]|(?<=[a-z])(?=[A-Z]))(?i:id|uuid|guid|mrn|nr|no|number|index|key)$")


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
            _judge_numbers(table, name, len(filled), found)
        elif decimal_commas(filled) is not None:
            found.doubtful[name] = "looks like numbers with a decimal comma, read as words"
        elif names_rows(filled, len(table.rows)):
            found.left_out[name] = f"{len(filled):,} different words in {len(table.rows):,} rows"
    return found


def _judge_numbers(table: Table, name: str, different: int, found: Suspects) -> None:
    values = numbers_of(table, name)
    if number_note(name, values) is not None:
        found.left_out[name] = "counts the rows"
    elif IDENTIFIER.search(name) and different >= FEWEST and _whole(values):
        if different == len(values):
            found.left_out[name] = "a different whole number in each row, and the name of an identifier"
        else:
            found.doubtful[name] = "has the name of an identifier and is read as a number"


def _whole(values: np.ndarray[tuple[int, ...], np.dtype[np.float64]]) -> bool:
    known = values[~np.isnan(values)]
    return bool((known == np.round(known)).all())
