"""A log of a run: rows are added at its end, and what was written is known by its hash."""

from __future__ import annotations

import hashlib
import os
from pathlib import Path
from typing import Any, TypedDict

from counterpoise.errors import DataError, RunError

PIECE = 1 << 20  # bytes that are read at once


class Mark(TypedDict):
    """A log up to a place, as a checkpoint keeps it."""

    size: int
    sha256: str


class ChangedLogError(DataError):
    """A log whose rows are not those that the run wrote."""


class Log:
    """One log. The hash grows with the rows, so that a checkpoint of a long run costs no more than one of a short run."""

    def __init__(self, path: Path) -> None:
        self.path, self._size, self._hash = path, 0, hashlib.sha256()

    def append(self, line: bytes) -> None:
        with self.path.open("ab") as stream:
            stream.write(line)
        self._size += len(line)
        self._hash.update(line)

    def mark(self) -> Mark:
        with self.path.open("ab") as stream:
            os.fsync(stream.fileno())
        return {"size": self._size, "sha256": self._hash.hexdigest()}

    def check(self, mark: Mark) -> None:
        """Refuse a log that does not begin with what was marked."""
        if (self.path.stat().st_size if self.path.exists() else 0) < mark["size"]:
            raise DataError(f"{self.path} is shorter than when the checkpoint was written")
        if hash_up_to(self.path, mark["size"]).hexdigest() != mark["sha256"]:
            raise ChangedLogError(f"{self.path} is not what it was when the checkpoint was written")

    def cut(self, mark: Mark | None) -> None:
        """Forget what comes after a mark that was checked, or all."""
        self._size = mark["size"] if mark else 0
        if self.path.exists():
            os.truncate(self.path, self._size)
        self._hash = hash_up_to(self.path, self._size) if mark else hashlib.sha256()

    def read(self) -> bytes:
        """All that was written, or an error where the file holds anything else."""
        content = self.path.read_bytes()
        if hashlib.sha256(content).digest() != self._hash.digest():
            raise RunError(f"{self.path} was changed while the run was at work")
        return content


def hash_up_to(path: Path, size: int) -> Any:
    """The running SHA-256 of a file's first bytes."""
    total = hashlib.sha256()
    with path.open("rb") as stream:
        while size and (piece := stream.read(min(size, PIECE))):
            total.update(piece)
            size -= len(piece)
    return total
