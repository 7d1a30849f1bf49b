"""CSV files, gzipped or not, as tables: delimiter and encoding are detected, irregular rows are refused by number."""

from __future__ import annotations

import csv
import gzip
import io
import zlib
from collections.abc import Iterator
from pathlib import Path
from typing import IO, Any

from counterpoise.data.faults import MAX_CELLS, MAX_COLUMNS, MAX_LINE, MAX_TEXT_BYTES, fault, file_within
from counterpoise.data.tables.cells import Table, parse_number
from counterpoise.data.tables.commas import MARK, with_points
from counterpoise.data.tables.identifiers import INDEX_HINT, is_index
from counterpoise.data.tables.skipped import OnError, skipped_note
from counterpoise.errors import DataError, short
from counterpoise.system.capacity import check_fits

DELIMITERS = ",;\t|"
SNIFFED_CHARACTERS = 1 << 16
SNIFFED_ROWS = 20
UTF16_MARKS = (b"\xff\xfe", b"\xfe\xff")
ROW, CELL = 100, 16  # bytes beside the text: per row, and per cell in its row and column
GZIP_MARK = b"\x1f\x8b"
FEWEST_COLUMNS = 2  # a label and a feature
PIECE = 1 << 18  # bytes unpacked at a time
CHECK_EVERY = 16 << 20  # bytes between two checks of free memory

Record = tuple[int, list[str]]  # row in the file (the header is row 1), cells


def read_csv(
    path: Path | str, limit: int = MAX_TEXT_BYTES, fewest: int = FEWEST_COLUMNS, on_error: OnError = "stop"
) -> Table:
    """A table with a header row; delimited by comma, semicolon, tab or bar; in UTF-8, else Latin-1; gzipped or not.

    Between semicolons a number may have a decimal comma. A first column without a name that numbers the rows, as pandas writes it, is left out. Rows of another width than the
    header are refused, or with `on_error` "skip" left out and listed in a note.
    """
    path = file_within(path, limit)
    with _open_unpacked(path, limit) as raw:
        if raw.read(2) in UTF16_MARKS:
            raise fault(path, "is UTF-16; needs UTF-8 or Latin-1")
    try:
        table = _read(path, "utf-8-sig", limit, fewest, on_error)
    except UnicodeDecodeError:
        table = _read(path, "latin-1", limit, fewest, on_error)
        table = table._replace(notes=("not UTF-8, read as Latin-1", *table.notes))
    return _without_index(table) if "" in table.columns else table


def _read(path: Path, encoding: str, limit: int, fewest: int, on_error: OnError) -> Table:
    with _open_text(path, encoding, limit) as stream:
        delimiter = _delimiter(stream.read(SNIFFED_CHARACTERS))
    with _open_text(path, encoding, limit) as stream:
        records = _records(path, stream, delimiter)
        header_row, names = next(records, (1, []))
        _check_header(path, header_row, names, fewest)
        uneven: dict[str, str] = {}
        if on_error == "skip":
            records = _even(records, len(names), uneven)
        rows, cells = _body(path, records, len(names))
    notes = (*_header_note(header_row, names), *skipped_note(path, "rows", uneven, len(rows) + len(uneven)))
    columns = dict(zip(names, zip(*cells, strict=True), strict=True))
    table = Table(path, columns, rows, header_row, notes=notes)
    return with_points(table) if delimiter == MARK else table


def _even(records: Iterator[Record], width: int, uneven: dict[str, str]) -> Iterator[Record]:
    """The rows of this width; the others are told to `uneven`."""
    for row, cells in records:
        if len(cells) == width:
            yield row, cells
        else:
            uneven[f"row {row}"] = f"has {len(cells):,} cells; needs {width:,}, as the header"


def _open_text(path: Path, encoding: str, limit: int) -> IO[str]:
    return io.TextIOWrapper(_open_unpacked(path, limit), encoding=encoding, newline="")


def _without_index(table: Table) -> Table:
    """The table without its first column, which has no name."""
    if not is_index(table.columns[""]):
        raise fault(
            table.path, f"column 1 has no name and does not number the rows; {INDEX_HINT}", table.header
        )
    columns = {name: cells for name, cells in table.columns.items() if name}
    note = "column 1 has no name and numbers the rows: left out; with a name it is kept"
    return table._replace(columns=columns, notes=(*table.notes, note))


def _delimiter(sample: str) -> str:
    """The mark that splits the first rows into the most cells, as many in each row as in the header."""
    lines = sample.splitlines(keepends=True)
    whole = lines[:-1] if len(sample) == SNIFFED_CHARACTERS and len(lines) > 1 else lines

    def score(mark: str) -> float:
        widths = [len(cells) for cells in csv.reader(whole[:SNIFFED_ROWS], delimiter=mark) if cells]
        return widths[0] * widths.count(widths[0]) / len(widths) if widths else 0.0

    return max(DELIMITERS, key=score)


def _records(path: Path, stream: IO[str], delimiter: str) -> Iterator[Record]:
    """Rows that are not blank, numbered with the blank lines counted."""
    reader = csv.reader(_lines(path, stream), delimiter=delimiter, strict=True, skipinitialspace=True)
    row = 0
    while True:
        row += 1
        try:
            cells = next(reader)
        except StopIteration:
            return
        except csv.Error as error:
            reason = "a quote is never closed" if "end of data" in str(error) else str(error)
            raise fault(path, reason, row) from None
        if len(cells) > 1 or any(cell.strip() for cell in cells):
            yield row, [cell.strip() for cell in cells]


def _lines(path: Path, stream: IO[str]) -> Iterator[str]:
    number = 0
    while line := stream.readline(MAX_LINE):
        number += 1
        if len(line) == MAX_LINE:
            raise fault(path, f"line {number} has {MAX_LINE:,} characters or more")
        if "\0" in line:
            raise fault(path, f"line {number} holds a zero byte; needs text")
        yield line


def _check_header(path: Path, row: int, names: list[str], fewest: int) -> None:
    if not fewest <= len(names) <= MAX_COLUMNS:
        least = "2 (a label and a feature)" if fewest == FEWEST_COLUMNS else str(fewest)
        reason = f"the header has {len(names):,} columns; needs {least} to {MAX_COLUMNS:,}, divided by comma, semicolon, tab or bar"
        raise fault(path, reason, row)
    seen = set()
    for place, name in enumerate(names, start=1):
        if not name and place > 1:  # the first may be an index, which its cells decide
            raise fault(path, f"column {place} has no name; each needs one", row)
        if name in seen:
            raise fault(path, f"two columns are named {short(name)}; this row must give their names", row)
        seen.add(name)


def _header_note(row: int, names: list[str]) -> tuple[str, ...]:
    """A note on a header of numbers, as where a file begins with its first sample."""
    numbers = [name for name in names if parse_number(name) is not None]
    if 2 * len(numbers) < len(names):
        return ()
    said = f"{len(numbers):,} of {len(names):,} columns have a number as name, such as {short(numbers[0])}"
    return (f"{said}: row {row} is read as the header; where it is a sample, put a row of names above it",)


def _body(path: Path, records: Iterator[Record], width: int) -> tuple[list[int], list[list[str]]]:
    pool: dict[str, str] = {}  # equal cells share one string
    rows: list[int] = []
    body: list[list[str]] = []
    used = checked = 0  # bytes
    for row, cells in records:
        if len(cells) != width:
            raise fault(path, f"has {len(cells):,} cells; needs {width:,}, as the header", row)
        if len(rows) * width > MAX_CELLS:
            raise fault(path, f"more than {MAX_CELLS:,} cells", row)
        used += ROW + CELL * width + sum(map(len, cells))
        if used > checked + CHECK_EVERY:
            check_fits(used, f"{path}: row {row}: the table up to here", DataError)
            checked = used
        rows.append(row)
        body.append([pool.setdefault(cell, cell) for cell in cells])
    if not rows:
        raise fault(path, "no rows below the header")
    return rows, body


def _open_unpacked(path: Path, limit: int) -> IO[bytes]:
    """The bytes of a file, unpacked where its content, not its name, says gzip; at most `limit` of them."""
    with path.open("rb") as file:
        packed = file.read(len(GZIP_MARK)) == GZIP_MARK
    return io.BufferedReader(_Unpacked(path, limit), PIECE) if packed else path.open("rb")


class _Unpacked(io.RawIOBase):
    """A gzip file whose unpacked bytes are counted as they are read."""

    def __init__(self, path: Path, limit: int) -> None:
        self._path, self._limit, self._read = path, limit, 0
        self._file = gzip.GzipFile(path)

    def readable(self) -> bool:
        return True

    def readinto(self, buffer: Any) -> int:
        try:
            piece = self._file.read(len(buffer))
        except (OSError, EOFError, zlib.error) as error:
            raise fault(self._path, f"damaged gzip file: {error}") from None
        self._read += len(piece)
        if self._read > self._limit:
            raise fault(self._path, f"unpacks to more than {self._limit:,} bytes, the most that is read")
        buffer[: len(piece)] = piece
        return len(piece)

    def close(self) -> None:
        self._file.close()
        super().close()
