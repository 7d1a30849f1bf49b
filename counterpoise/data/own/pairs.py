"""Arrays in npy files of their own: x.npy and y.npy in one folder, or one file of inputs and one of labels."""

from __future__ import annotations

from pathlib import Path

from counterpoise.data.faults import MAX_MEMBERS, as_fault, fault, no_such
from counterpoise.data.own.npy import SUFFIX, ArrayFiles
from counterpoise.errors import ConfigError

INPUTS = ("x", "x_train", "x_test")
NEEDED = 'x.npy beside y.npy (or x_train.npy and so on), or labels = "FILE.npy"'


def holds_arrays(path: Path) -> bool:
    """Whether a folder holds inputs as an npy file, under one of the names that arrays have."""
    return path.is_dir() and any(name in INPUTS for name in _in_folder(path))


def array_files(path: Path | str, labels: str | None = None) -> ArrayFiles:
    """Where the arrays of a path lie: an npz, a folder of npy files, one of its files, or inputs with a file of labels."""
    path = Path(path)
    if path.suffix.lower() != SUFFIX and not path.is_dir():
        if labels is not None:
            raise ConfigError(f"data.labels goes with a {SUFFIX} file of inputs, not with {path.name}")
        return ArrayFiles(path)
    if not path.exists():
        raise no_such(path)
    if labels is not None and not path.is_dir():
        return ArrayFiles(path, {"x": path, "y": path.parent / Path(labels).expanduser()})
    found = _in_folder(path if path.is_dir() else path.parent)
    if path.is_file() and path.stem.lower() not in found.keys() & set(INPUTS):
        raise fault(path, f"which file holds its labels? needs {NEEDED}")
    return ArrayFiles(path, found)


def _in_folder(folder: Path) -> dict[str, Path]:
    """The npy files of a folder by name, in lower case, as X.npy is common."""
    with as_fault(folder, "cannot be listed"):
        files = sorted(file for file in folder.iterdir() if file.suffix.lower() == SUFFIX)
    found = {file.stem.lower(): file for file in files[: MAX_MEMBERS + 1]}
    if len(found) < min(len(files), MAX_MEMBERS + 1):
        raise fault(folder, "two of its arrays have the same name but for their case")
    return found
