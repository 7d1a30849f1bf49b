"""A lock on a folder: one process at a time."""

from __future__ import annotations

import fcntl
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from counterpoise.errors import ConfigError


@contextmanager
def locked(folder: Path, otherwise: str) -> Iterator[None]:
    """Lock a folder, or raise a ConfigError with the text `otherwise` where another process holds it.

    The system releases the lock however the process ends.
    """
    try:
        handle = (folder / ".lock").open("w")
    except OSError as error:
        raise ConfigError(f"{folder} cannot be written: {error.strerror}") from None
    with handle:
        try:
            fcntl.flock(handle, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except OSError:
            raise ConfigError(otherwise) from None
        yield
