"""Limits on files, checked before memory is allocated, and one-line errors with file name, row and reason."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import numpy as np

from counterpoise.errors import ConfigError, CounterpoiseError, DataError

MAX_BYTES = 4 << 30  # unpacked content of one data set

MAX_TEXT_BYTES = 2 << 30
MAX_LINE = 16 << 20  # characters
MAX_COLUMNS = 10_000
MAX_CELLS = 50_000_000
MAX_CATEGORIES = 1_000
MAX_WORD = 256  # characters of a label or a client's name
MAX_CLASSES = 10_000
MAX_NUMBER = float(np.finfo(np.float32).max)

MAX_MEMBERS = 64  # arrays of an npz
MAX_NPY_HEADER = 4_096
MAX_DIMENSIONS = 6

MAX_FILES = 1_000_000
MAX_PIXELS = 1 << 24  # of one image
MAX_IMAGE_BYTES = 64 << 20

MAX_PACK_HEADER = 16 << 20

SHOWN_CHARACTERS = 240  # of a parser's own words


def fault(source: Path | str, reason: str, row: int | None = None) -> DataError:
    where = source if row is None else f"{source}: row {row}"
    return DataError(" ".join(f"{where}: {reason}".splitlines()))


def no_such(path: Path | str, what: str = "file") -> DataError:
    """For a relative path the error names the folder that was searched."""
    return fault(path, f"no such {what}{_searched_in(Path(path))}")


def _searched_in(path: Path) -> str:
    return "" if path.is_absolute() else f" in {Path.cwd()}"


@contextmanager
def as_fault(source: Path | str, trouble: str) -> Iterator[None]:
    """Whatever a parser raises on damaged or hostile bytes becomes a one-line DataError about the file."""
    try:
        yield
    except CounterpoiseError:
        raise
    except Exception as error:
        detail = next(iter(str(error).splitlines()), "") or type(error).__name__
        raise fault(source, f"{trouble}: {detail[:SHOWN_CHARACTERS]}") from None


def file_within(path: Path | str, limit: int) -> Path:
    """The path, if it is a readable file of 1 to `limit` bytes."""
    path = Path(path)
    if not path.is_file():
        raise fault(path, "is not a regular file") if path.exists() else no_such(path)
    size = path.stat().st_size
    if not 0 < size <= limit:
        raise fault(path, f"holds {size:,} bytes; at most {limit:,}" if size else "is empty")
    with as_fault(path, "cannot be opened"), path.open("rb"):
        return path


def check_share(test_share: float) -> None:
    """Below one half, so that after rounding each class keeps a training sample."""
    if not 0 < test_share < 0.5:
        raise ConfigError(f"test_share must be a number in (0, 0.5), not {test_share!r}")
