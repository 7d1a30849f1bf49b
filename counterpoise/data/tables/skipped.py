"""What cannot be used and was skipped on request: rows of a table or files of a folder, listed in one note."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from pathlib import Path
from typing import Literal

from counterpoise.data.faults import MAX_NUMBER, MAX_WORD, fault
from counterpoise.data.tables.cells import Table, is_missing, is_nameless, parse_number
from counterpoise.errors import short

OnError = Literal["stop", "skip"]
SHOWN = 20  # that are listed one by one
MOST = 0.5  # of all; where more cannot be used, the file is not what it was taken for


def skipped_note(source: Path, what: str, reasons: Mapping[str, str], count: int) -> tuple[str, ...]:
    """One note that lists what was skipped and why; more than half of all is refused."""
    if not reasons:
        return ()
    shown = "; ".join(f"{place}: {why}" for place, why in list(reasons.items())[:SHOWN])
    rest = f"; and {len(reasons) - SHOWN:,} more" if len(reasons) > SHOWN else ""
    if len(reasons) > MOST * count:
        first, why = next(iter(reasons.items()))
        many = f"{len(reasons):,} of {count:,} {what} cannot be used, more than half"
        raise fault(source, f"{many}; the first is {first}: {why}")
    return (f"skipped {len(reasons):,} of {count:,} {what} that cannot be used: {shown}{rest}",)


def usable(
    table: Table, named: Sequence[str], features: Sequence[str], numeric: Collection[str] = ()
) -> Table:
    """The table without rows whose label or client is missing, or that hold a word among numbers."""
    reasons: dict[int, str] = {}
    for name in named:
        for place, cell in enumerate(table.columns[name]):
            if is_nameless(cell) or len(cell) > MAX_WORD:
                what = "is missing" if len(cell) <= MAX_WORD else f"holds {len(cell):,} characters"
                reasons.setdefault(place, f"{name!r} {what}")
    for name in features:
        reasons = _strange(table, name, name in numeric) | reasons
    if not reasons:
        return table
    kept = [place for place in range(len(table.rows)) if place not in reasons]
    note = skipped_note(
        table.path,
        "rows",
        {f"row {table.rows[place]}": reasons[place] for place in sorted(reasons)},
        len(table.rows),
    )
    columns = {name: [cells[place] for place in kept] for name, cells in table.columns.items()}
    rows = [table.rows[place] for place in kept]
    return table._replace(columns=columns, rows=rows, notes=(*table.notes, *note))


def _strange(table: Table, name: str, numeric: bool) -> dict[int, str]:
    """Places of cells that are no numbers in a column of numbers."""
    if name in table.words:
        return {}
    cells = table.columns[name]
    filled = [cell for cell in cells if not is_missing(cell)]
    wrong = {cell for cell in set(filled) if not _is_number(cell)}
    if not numeric and 2 * sum(cell in wrong for cell in filled) >= len(filled):
        return {}  # a column of words
    return {
        place: f"{name!r} holds {short(cell)} among numbers"
        for place, cell in enumerate(cells)
        if cell in wrong
    }


def _is_number(cell: str) -> bool:
    value = parse_number(cell)
    return value is not None and abs(value) <= MAX_NUMBER
