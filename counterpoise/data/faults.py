"""How a bad file is reported: its name, the row where there is one, and the reason, in one line."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from counterpoise.errors import ConfigError, CounterpoiseError, DataError

SHOWN_CHARACTERS = 60


def fault(source: Path | str, reason: str, row: int | None = None) -> DataError:
    where = source if row is None else f"{source}: row {row}"
    return DataError(" ".join(f"{where}: {reason}".splitlines()))


def no_such(path: Path | str, what: str = "file") -> DataError:
    """Of a relative path, which may be meant from elsewhere, with the folder that was looked in."""
    return fault(path, f"no such {what}{_looked_in(Path(path))}")


def _looked_in(path: Path) -> str:
    return "" if path.is_absolute() else f" in {Path.cwd()}"


def brief(value: object) -> str:
    """A value as an error may quote it."""
    text = repr(value)
    return text if len(text) <= SHOWN_CHARACTERS else f"{text[:SHOWN_CHARACTERS]}..."


@contextmanager
def blamed_on(source: Path | str, trouble: str) -> Iterator[None]:
    """Whatever a parser raises on hostile bytes is the file's fault, in one line."""
    try:
        yield
    except CounterpoiseError:
        raise
    except Exception as error:
        detail = next(iter(str(error).splitlines()), "") or type(error).__name__
        raise fault(source, f"{trouble}: {detail[: 4 * SHOWN_CHARACTERS]}") from None


def file_within(path: Path | str, limit: int) -> Path:
    """The path, if it is a file that can be opened and is neither empty nor larger than `limit` bytes."""
    path = Path(path)
    if not path.is_file():
        raise fault(path, "is no regular file") if path.exists() else no_such(path)
    size = path.stat().st_size
    if not 0 < size <= limit:
        raise fault(path, f"holds {size:,} bytes; legal: 1 to {limit:,}" if size else "is empty")
    with blamed_on(path, "cannot be opened"), path.open("rb"):
        return path


def check_share(test_share: float) -> None:
    """Below one half, so that rounding leaves each class a training sample."""
    if not 0 < test_share < 0.5:
        raise ConfigError(f"test_share = {test_share!r} is not legal; legal: a number in (0, 0.5)")
