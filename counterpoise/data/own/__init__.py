"""A user's own data: tables, arrays, image folders, torch data sets and packs, each checked as it is read."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from counterpoise.data.dataset import Assignment, Dataset
from counterpoise.data.own.arrays import read_npz
from counterpoise.data.own.folder import read_image_folder
from counterpoise.data.own.kinds import kind_of
from counterpoise.data.own.pack import is_pack, read_pack, write_pack
from counterpoise.data.own.prepared import Pack
from counterpoise.data.own.torch_dataset import from_torch
from counterpoise.data.tables.splitting import Splitting
from counterpoise.data.tables.table import read_table, table_dataset
from counterpoise.data.tables.uses import ColumnUses
from counterpoise.errors import ConfigError

__all__ = [
    "Assignment",
    "Pack",
    "from_torch",
    "is_pack",
    "kind_of",
    "open_data",
    "open_pack",
    "read_image_folder",
    "read_npz",
    "read_pack",
    "read_table",
    "write_pack",
]


def open_pack(path: Path | str) -> Dataset:
    """The data set of a pack, with its assignment to clients."""
    packed = read_pack(path)
    return packed.dataset.assigned(packed.assignment)


def open_data(
    path: Path | str,
    label: str | None = None,
    client: str | None = None,
    test_share: float = 0.2,
    seed: int = 0,
    size: int | tuple[int, int] | None = None,
    clients: bool = False,
    numeric: Sequence[str] | None = None,
    categorical: Sequence[str] | None = None,
    drop: Sequence[str] | None = None,
) -> Dataset:
    """The data set at a path, read by its kind; `size` and `clients` are for folders, the column names for tables."""
    path, kind = Path(path), kind_of(Path(path))
    if kind == "images":
        return read_image_folder(path, size, clients, test_share, seed)
    if kind == "arrays":
        return read_npz(path, test_share, seed)
    if kind == "pack":
        return open_pack(path)
    if label is None:
        raise ConfigError(f"{path}: label is missing; needs the name of the column that holds the classes")
    uses = ColumnUses(label, client, numeric, categorical, drop)
    return table_dataset(path, uses, Splitting(test_share, seed))
