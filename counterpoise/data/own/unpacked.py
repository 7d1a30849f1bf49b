"""Files that may be packed by gzip, read without unpacking more than is legal: a small file may hold very much."""

from __future__ import annotations

import gzip
import io
import zlib
from pathlib import Path
from typing import IO, Any

from counterpoise.data.own.faults import fault

GZIP_MARK = b"\x1f\x8b"
PIECE = 1 << 18  # bytes at a time


def open_unpacked(path: Path, limit: int) -> IO[bytes]:
    """The bytes of a file, unpacked where it is packed, by what it holds and not by its name; at most `limit` of them."""
    with path.open("rb") as file:
        packed = file.read(len(GZIP_MARK)) == GZIP_MARK
    return io.BufferedReader(_Unpacked(path, limit), PIECE) if packed else path.open("rb")


class _Unpacked(io.RawIOBase):
    """What gzip packed, counted while it is read."""

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
            raise fault(self._path, f"unpacks to more than {self._limit:,} bytes; legal: at most that many")
        buffer[: len(piece)] = piece
        return len(piece)

    def close(self) -> None:
        self._file.close()
        super().close()
