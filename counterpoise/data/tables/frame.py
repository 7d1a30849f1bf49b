"""Rows that are in memory as a table of text: a data frame, columns by name, or one dict per row."""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping, Sequence
from datetime import date, datetime
from pathlib import Path
from typing import Any

import numpy as np

from counterpoise.data.tables.cells import Table
from counterpoise.errors import DataError, short

NAME = Path("the frame")  # in errors, where files have their path
NEEDED = "a data frame, columns by name, or one dict per row"


def is_rows(given: Any) -> bool:
    """Whether something looks like a frame, columns by name, or dicts."""
    if isinstance(given, Mapping) or hasattr(given, "columns"):
        return True
    return (
        isinstance(given, Sequence)
        and not isinstance(given, str)
        and all(isinstance(r, Mapping) for r in given)
    )


def frame_table(given: Any, kinds: Mapping[str, Sequence[str]] | None = None) -> Table:
    """The rows as text; `kinds`: known words of a column, by which a whole number is spelled 1 or 1.0."""
    known = kinds or {}
    columns = {
        str(name): [_spell(str(name), cell, known.get(str(name), ())) for cell in cells]
        for name, cells in _columns(given).items()
    }
    lengths = {len(cells) for cells in columns.values()}
    if len(lengths) != 1 or lengths == {0}:
        raise DataError(f"{NAME}: its columns have {sorted(lengths) or 'no'} rows; needs one number above 0")
    return Table(NAME, columns, range(1, lengths.pop() + 1))


def _columns(given: Any) -> dict[Any, Iterable[Any]]:
    if isinstance(given, Mapping):
        return dict(given)
    if hasattr(given, "columns"):
        names = [str(name) for name in given.columns]
        if len(set(names)) < len(names):
            raise DataError(f"{NAME}: two of its columns have the same name; needs names that differ")
        return {name: list(given[name]) for name in given.columns}
    rows = list(given)
    return {
        name: [row.get(name) for row in rows] for name in dict.fromkeys(key for row in rows for key in row)
    }


def _spell(column: str, cell: Any, kinds: Sequence[str]) -> str:
    """A cell as a file would hold it; a missing one as nothing."""
    if isinstance(cell, str):
        return cell.strip()
    if isinstance(cell, bool | np.bool_):
        return str(cell)
    if cell is None or type(cell).__name__ in ("NAType", "NaTType"):
        return ""
    if isinstance(cell, date):
        return cell.isoformat(" ") if isinstance(cell, datetime) else cell.isoformat()
    if not isinstance(cell, int | float | np.number):
        raise DataError(f"{NAME}: column {short(column)} holds {short(cell)}; needs numbers and words")
    if isinstance(cell, int | np.integer):
        return str(int(cell))
    return _spell_float(float(cell), kinds)


def _spell_float(value: float, kinds: Sequence[str]) -> str:
    """A gap in a column of whole numbers turns 1 into 1.0 in a frame; as a word it must stay what it was."""
    if math.isnan(value):
        return ""
    if value.is_integer() and repr(value) not in kinds and str(int(value)) in kinds:
        return str(int(value))
    return repr(value)
