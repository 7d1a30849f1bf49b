"""Where data files are found and how their bytes are read."""

from __future__ import annotations

import gzip
import hashlib
import io
import lzma
import os
import zipfile
import zlib
from pathlib import Path
from typing import IO, Any

import numpy as np
from numpy.typing import NDArray

from counterpoise.data.mirrors import how_to_get
from counterpoise.errors import DataError

GIBIBYTE = 1 << 30
COMPRESSIONS = ("", ".gz", ".xz")


def data_root(configured: Path | str | None = None) -> Path:
    """The configured folder, else COUNTERPOISE_DATA, else the user's cache folder."""
    given = configured or os.environ.get("COUNTERPOISE_DATA")
    if given:
        return Path(given).expanduser()
    cache = os.environ.get("XDG_CACHE_HOME")
    return (Path(cache) if cache else Path.home() / ".cache") / "counterpoise" / "data"


def look_for(root: Path | None, dataset: str, *names: str) -> Path | None:
    """The first of these files, plain or compressed, in the set's folder."""
    folder = data_root(root) / dataset
    candidates = (folder / (name + suffix) for name in names for suffix in COMPRESSIONS)
    return next((path for path in candidates if path.is_file()), None)


def find_file(root: Path | None, dataset: str, *names: str) -> Path:
    """The first of these files, plain or compressed, or a DataError that says what to put where."""
    found = look_for(root, dataset, *names)
    if found is not None:
        return found
    root = data_root(root)
    raise DataError(
        f"{dataset}: no {' or '.join(names)} in {root / dataset}; "
        f"put the official file there (plain, .gz or .xz), {how_to_get(dataset, root)}"
    )


def read_start(path: Path, count: int) -> bytes:
    """The first `count` unpacked bytes of a plain, .gz or .xz file."""
    try:
        with _open(path) as stream:
            return stream.read(count)
    except (OSError, EOFError, zlib.error, lzma.LZMAError) as error:
        raise DataError(f"{path}: damaged or truncated: {error}") from error


def read_bytes(path: Path, limit: int = GIBIBYTE) -> bytes:
    """The content of a plain, .gz or .xz file, unpacked; more than `limit` bytes are refused."""
    content = read_start(path, limit + 1)
    if len(content) > limit:
        raise DataError(f"{path}: holds more than {limit:,} bytes unpacked, the most that is read")
    return content


def read_npz(path: Path, *names: str, limit: int = GIBIBYTE) -> dict[str, NDArray[Any]]:
    """Plain arrays of an npz file; pickled arrays and more than `limit` bytes are refused."""
    try:
        content = io.BytesIO(read_bytes(path, limit))
        with zipfile.ZipFile(content) as members:
            unpacked = sum(member.file_size for member in members.infolist())
        if unpacked > limit:
            raise DataError(f"{path}: holds {unpacked:,} bytes unpacked; at most {limit:,}")
        with np.load(content, allow_pickle=False) as archive:
            return {name: archive[name] for name in names}
    except (OSError, ValueError, KeyError, EOFError, MemoryError, zipfile.BadZipFile) as error:
        raise DataError(f"{path}: not an npz file with {', '.join(names)}: {error}") from error


def _open(path: Path) -> IO[bytes] | gzip.GzipFile | lzma.LZMAFile:
    if path.suffix == ".gz":
        return gzip.open(path)
    if path.suffix == ".xz":
        return lzma.open(path)
    return path.open("rb")


def sha256_of(path: Path) -> str:
    """The checksum of the file on disk, packed as it is."""
    with path.open("rb") as stream:
        return hashlib.file_digest(stream, "sha256").hexdigest()
