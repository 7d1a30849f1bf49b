"""Atomic file writes: a file is either whole or absent."""

from __future__ import annotations

import os
from contextlib import suppress
from pathlib import Path

TEMPORARY = ".partial-"


def write_atomically(path: Path, content: bytes, mode: int = 0o666) -> None:
    """Write to a temporary file, fsync, rename into place; on failure nothing is left behind. The umask limits the mode."""
    beside = path.with_name(f"{TEMPORARY}{os.getpid()}-{path.name}")
    try:
        with open(beside, "wb", opener=lambda name, flags: os.open(name, flags, mode)) as stream:
            stream.write(content)
            stream.flush()
            os.fsync(stream.fileno())
        os.replace(beside, path)
    except BaseException as error:
        with suppress(OSError):
            beside.unlink()
        if isinstance(error, OSError):  # it must name what the user knows, not the temporary file
            error.filename, error.filename2 = str(path), None
        raise
    sync_folder(path.parent)


def sync_folder(folder: Path) -> None:
    """Make renames in a folder durable."""
    handle = os.open(folder, os.O_RDONLY)
    try:
        os.fsync(handle)
    finally:
        os.close(handle)


def clear_temporaries(folder: Path) -> None:
    """Remove temporary files of interrupted writes."""
    for path in folder.glob(f"{TEMPORARY}*"):
        path.unlink(missing_ok=True)
