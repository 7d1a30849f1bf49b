"""The table that `init` is given: its label and client columns are there, and every row has a class and a client."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from counterpoise.data.faults import fault
from counterpoise.data.tables.cells import Table, is_nameless
from counterpoise.data.tables.skipped import usable
from counterpoise.data.tables.table import is_table, open_table
from counterpoise.errors import ConfigError, DataError, legal_words, listed, short


def open_given(path: Path, label: str | None, client: str | None, skip: bool) -> Table:
    """The table with both columns; with `skip` without the rows that cannot be used, else such rows are refused."""
    if path.is_dir():
        raise ConfigError(
            f'{short(path)} must be a table, not a folder; for images write [data] with name = "images" and its path (docs/data.md)'
        )
    if not path.is_file():
        raise DataError(f"{short(path)}: no such file")
    if not is_table(path):
        raise ConfigError(f"{short(path)} must be a table: .csv, .tsv, .txt, also with .gz, or .parquet")
    table = open_table(path, on_error="skip" if skip else "stop")
    if label is None:
        raise ConfigError(f"{short(path)}: --label is missing: the column of the classes, {_names(table)}")
    for option, column in (("--label", label), ("--client", client)):
        if column is not None and column not in table.columns:
            guess = legal_words(column, list(table.columns)).partition("?")
            near = f"{guess[0]}? " if guess[1] else ""
            raise fault(path, f"{option}: no column {column!r}; {near}{_names(table)}")
    if label == client:
        raise fault(path, f"column {label!r} cannot be both --label and --client; {_names(table)}")
    table = _without_gaps(table, [label, *([] if client is None else [client])], skip)
    if client is not None and len(set(table.columns[client])) < 2:
        raise fault(path, f"--client: column {client!r} names one client; needs two at least")
    return table


def _without_gaps(table: Table, owners: Sequence[str], skip: bool) -> Table:
    """The usable rows; rows without a class or a client are refused where they are not to be skipped."""
    if skip:
        return usable(table, owners, [name for name in table.columns if name not in owners])
    for name in owners:
        gaps = [row for row, cell in zip(table.rows, table.columns[name], strict=True) if is_nameless(cell)]
        if gaps:
            many = f"{len(gaps):,} of {len(table.rows):,} rows"
            raise fault(
                table.path, f"{name!r} is missing, as in {many}; --skip leaves such rows out", gaps[0]
            )
    return table


def _names(table: Table) -> str:
    return f"one of {listed(list(table.columns))}"
