"""Parquet files as tables; needs the extra ``counterpoise[parquet]``."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np

from counterpoise.data.faults import MAX_BYTES, MAX_CELLS, MAX_COLUMNS, as_fault, fault, file_within
from counterpoise.data.tables.cells import Table
from counterpoise.data.tables.csv_file import FEWEST_COLUMNS
from counterpoise.errors import DataError
from counterpoise.system.capacity import check_fits

DAMAGED = "damaged or not a Parquet file"
ROWS_AT_ONCE = 1 << 18
REFERENCE = 8  # bytes of a cell in a list; equal cells share one word
WORD = 60  # bytes of a string beside its letters
NUMBER = 16  # bytes of the widest number; fixed-length strings state their width
SHARED = 4  # bytes of a cell that is an index into a dictionary of strings


def read_parquet(path: Path | str, fewest: int = FEWEST_COLUMNS) -> Table:
    """A flat Parquet table; its first record is row 1, since there is no header row."""
    path = file_within(path, MAX_BYTES)
    try:
        import pyarrow
        from pyarrow import parquet
    except ImportError:
        raise fault(path, "Parquet needs pyarrow; install counterpoise[parquet]") from None
    with as_fault(path, DAMAGED), parquet.ParquetFile(path) as file:
        schema, rows = file.schema_arrow, file.metadata.num_rows
        _check_size(path, file.metadata, fewest)
        _check_columns(path, schema, pyarrow)
        _check_memory(path, file)
    words = [field.name for field in schema if _is_text(field.type, pyarrow)]
    # Dictionary-encoded: otherwise a string that is stored once takes memory in every row.
    with as_fault(path, DAMAGED), parquet.ParquetFile(path, read_dictionary=words) as file:
        columns = {field.name: list(_cells(path, file, field, pyarrow)) for field in schema}
    return Table(path, columns, range(1, rows + 1), words=_word_columns(schema, pyarrow))


def _check_size(path: Path, metadata: Any, fewest: int) -> None:
    rows, columns = metadata.num_rows, metadata.num_columns
    unpacked = sum(metadata.row_group(group).total_byte_size for group in range(metadata.num_row_groups))
    if not fewest <= columns <= MAX_COLUMNS:
        least = "2 (a label and a feature)" if fewest == FEWEST_COLUMNS else str(fewest)
        raise fault(path, f"has {columns:,} columns; needs {least} to {MAX_COLUMNS:,}")
    if not 0 < rows * columns <= MAX_CELLS or unpacked > MAX_BYTES:
        raise fault(
            path,
            f"has {rows:,} rows, {unpacked:,} bytes unpacked; needs 1 row to {MAX_CELLS:,} cells, {MAX_BYTES:,} bytes",
        )


def _check_columns(path: Path, schema: Any, pyarrow: Any) -> None:
    names = schema.names
    if len(set(names)) < len(names):
        raise fault(path, f"two columns are named {next(name for name in names if names.count(name) > 1)!r}")
    for field in schema:
        if pyarrow.types.is_nested(field.type):
            raise fault(path, f"column {field.name!r} holds {field.type}, not numbers or words")


def _check_memory(path: Path, file: Any) -> None:
    """Memory of the unpacked rows, which may be many times the size of the file; columns are read one by one."""
    metadata, rows = file.metadata, file.metadata.num_rows
    groups = [metadata.row_group(group) for group in range(metadata.num_row_groups)]
    widest = 0
    for place in range(metadata.num_columns):
        kind = file.schema.column(place)
        packed = sum(group.column(place).total_uncompressed_size for group in groups)
        width = max(kind.length, NUMBER) if kind.physical_type != "BYTE_ARRAY" else SHARED
        widest = max(widest, packed + rows * width)
    cells = rows * metadata.num_columns
    check_fits(widest + cells * REFERENCE, f"{path}: a table of {cells:,} cells", DataError)


def _is_text(kind: Any, pyarrow: Any) -> bool:
    kinds = pyarrow.types
    tests = (kinds.is_string, kinds.is_large_string, kinds.is_binary, kinds.is_large_binary)
    return any(test(kind) for test in tests)


def _cells(path: Path, file: Any, field: Any, pyarrow: Any) -> Iterator[str]:
    """The cells of a column as text, equal ones as one string."""
    column, pool = file.read(columns=[field.name]).column(0), dict[str, str]()
    with as_fault(path, f"column {field.name!r} holds {field.type}, not numbers or words"):
        for chunk in column.chunks:
            for first in range(0, len(chunk), ROWS_AT_ONCE):
                yield from _slice(path, chunk.slice(first, ROWS_AT_ONCE), pool, pyarrow)


def _slice(path: Path, cells: Any, pool: dict[str, str], pyarrow: Any) -> list[str]:
    if not pyarrow.types.is_dictionary(cells.type):
        cells = cells.cast(pyarrow.string()).dictionary_encode()
    used, places = np.unique(cells.indices.fill_null(-1).to_numpy(), return_inverse=True)
    kinds = cells.dictionary.take(pyarrow.array(used[used >= 0])).cast(pyarrow.string())
    check_fits(kinds.nbytes + WORD * len(kinds), f"{path}: {len(kinds):,} different words", DataError)
    words = [pool.setdefault(word, word) for word in map(_stripped, kinds.to_pylist())]
    missing = [""] * int((used < 0).any())  # -1 comes first
    return list(np.array([*missing, *words], dtype=object)[places])


def _stripped(word: str | None) -> str:
    return (word or "").strip()


def _word_columns(schema: Any, pyarrow: Any) -> frozenset[str]:
    kinds = pyarrow.types

    def holds_words(kind: Any) -> bool:
        return any(
            test(kind)
            for test in (kinds.is_string, kinds.is_large_string, kinds.is_dictionary, kinds.is_boolean)
        )

    return frozenset(field.name for field in schema if holds_words(field.type))
