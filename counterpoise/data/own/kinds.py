"""Which kind of data a path holds: the one place that decides it, and says what is supported."""

from __future__ import annotations

from pathlib import Path

from counterpoise.data.faults import fault, no_such
from counterpoise.data.own.npy import SUFFIX as NPY
from counterpoise.data.own.pairs import holds_arrays
from counterpoise.data.tables.table import is_table
from counterpoise.errors import DataError

ARRAYS = (".npz", NPY)
PACK = ".safetensors"
PICTURES = (".png", ".jpg", ".jpeg", ".bmp", ".webp", ".tif", ".tiff", ".ppm", ".pgm")


def kind_of(path: Path, new: bool = False) -> str:
    """What reads a path: the name that `data.name` has for it. `new`: for a trained model, which needs no labels."""
    suffix = path.suffix.lower()
    if not path.exists():
        raise DataError(f"{no_such(path, 'file or folder')}; needs {_supported(new)}")
    if suffix in ARRAYS or holds_arrays(path):
        return "arrays"
    if path.is_dir() or (new and suffix in PICTURES):
        return "images"
    if is_table(path):
        return "table"
    if suffix == PACK:
        return "pack"
    raise fault(path, f"cannot tell what {suffix or 'a file without suffix'} holds; needs {_supported(new)}")


def _supported(new: bool) -> str:
    """In words; one image, or inputs alone, have no label to train on."""
    table = "a table (.csv, .tsv, .txt, also with .gz; .parquet, .pq)"
    arrays, images = (NPY, ", an image or") if new else ("or x.npy beside y.npy", " or")
    return f"{table}, arrays (.npz, {arrays}), a pack ({PACK}){images} a folder of images"
