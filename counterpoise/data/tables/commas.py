"""Decimal commas: read in a file divided by semicolons, where programs write them; noted in any other."""

from __future__ import annotations

import re
from collections.abc import Collection, Sequence

from counterpoise.data.tables.cells import Table, parse_number
from counterpoise.errors import listed

MARK = ";"  # between cells, where a comma is the decimal mark
COMMA = r"([+-]?\d*),(\d+(?:[eE][+-]?\d+)?)"
POINT = r"[+-]?\d*\.\d+(?:[eE][+-]?\d+)?"
_COMMA, _POINT = re.compile(COMMA), re.compile(POINT)


def with_points(table: Table) -> Table:
    """The table with 3,5 as 3.5, said in a note; a column that also has points is left as it is, since one of them may mark thousands."""
    changed = {name: _pointed(cells) for name, cells in table.columns.items() if _has_commas_alone(cells)}
    if not changed:
        return table
    note = f"numbers with a decimal comma, as in files divided by semicolons: {listed(list(changed))}"
    return table._replace(columns={**table.columns, **changed}, notes=(*table.notes, note))


def decimal_commas(words: Collection[str]) -> str | None:
    """An example, where all words are numbers and some have a decimal comma."""
    with_comma = [word for word in words if _COMMA.fullmatch(word)]
    others = (word for word in words if not _COMMA.fullmatch(word))
    return min(with_comma) if with_comma and all(parse_number(word) is not None for word in others) else None


def _has_commas_alone(cells: Sequence[str]) -> bool:
    kinds = set(cells)
    return any(map(_COMMA.fullmatch, kinds)) and not any(map(_POINT.fullmatch, kinds))


def _pointed(cells: Sequence[str]) -> list[str]:
    spelled = {
        cell: f"{found[1]}.{found[2]}" for cell in set(cells) if (found := _COMMA.fullmatch(cell)) is not None
    }
    return [spelled.get(cell, cell) for cell in cells]
