"""Parquet files as tables; needs the extra ``counterpoise[parquet]``."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from counterpoise.data.own.cells import Table
from counterpoise.data.own.faults import blamed_on, fault, file_within
from counterpoise.data.own.limits import MAX_BYTES, MAX_CELLS, MAX_COLUMNS


def read_parquet(path: Path | str) -> Table:
    """A flat Parquet table; its first record is row 1, since there is no header row."""
    path = file_within(path, MAX_BYTES)
    try:
        import pyarrow
        from pyarrow import parquet
    except ImportError:
        raise fault(path, "Parquet needs pyarrow; install counterpoise[parquet]") from None
    with blamed_on(path, "damaged or no Parquet file"), parquet.ParquetFile(path) as file:
        _check_size(path, file.metadata)
        content = file.read()
    names = content.column_names
    if len(set(names)) < len(names):
        raise fault(path, f"two columns are named {next(name for name in names if names.count(name) > 1)!r}")
    columns = {name: _text(path, name, content[name], pyarrow) for name in names}
    return Table(path, columns, range(1, content.num_rows + 1), words=_word_columns(content.schema, pyarrow))


def _check_size(path: Path, metadata: Any) -> None:
    rows, columns = metadata.num_rows, metadata.num_columns
    unpacked = sum(metadata.row_group(group).total_byte_size for group in range(metadata.num_row_groups))
    if not 2 <= columns <= MAX_COLUMNS:
        raise fault(path, f"has {columns:,} columns; legal: 2 (a label and a feature) to {MAX_COLUMNS:,}")
    if not 0 < rows * columns <= MAX_CELLS or unpacked > MAX_BYTES:
        raise fault(
            path,
            f"has {rows:,} rows, {unpacked:,} bytes unpacked; legal: 1 row to {MAX_CELLS:,} cells, {MAX_BYTES:,} bytes",
        )


def _text(path: Path, name: str, column: Any, pyarrow: Any) -> list[str]:
    with blamed_on(path, f"column {name!r} holds {column.type}, not numbers or words"):
        return [(cell or "").strip() for cell in column.cast(pyarrow.string()).to_pylist()]


def _word_columns(schema: Any, pyarrow: Any) -> frozenset[str]:
    kinds = pyarrow.types

    def holds_words(kind: Any) -> bool:
        return any(
            test(kind)
            for test in (kinds.is_string, kinds.is_large_string, kinds.is_dictionary, kinds.is_boolean)
        )

    return frozenset(field.name for field in schema if holds_words(field.type))
