"""Hugging Face data sets: columns of numbers and words as a table, or one column of images or arrays as samples."""

from __future__ import annotations

import datetime
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

from counterpoise.data.dataset import Dataset
from counterpoise.data.faults import fault
from counterpoise.data.own.frames import from_frame
from counterpoise.data.own.labels import checked_labels, named_labels
from counterpoise.data.own.npy import AnyArray
from counterpoise.data.own.torch_dataset import from_torch
from counterpoise.data.split import Share
from counterpoise.data.types import Rows
from counterpoise.errors import ConfigError, DataError, listed, short

SAVED = ("dataset_info.json", "dataset_dict.json")  # files of a folder that `save_to_disk` wrote
CELL = (str, bool, int, float, np.generic, datetime.date, datetime.time, datetime.timedelta)
HALVES = ("train", "test")


def is_hugging_face(given: Any) -> bool:
    """Whether something has the columns and features of a `datasets.Dataset`, which need not be installed."""
    return all(hasattr(given, name) for name in ("column_names", "features", "__getitem__", "__len__"))


def is_stream(given: Any) -> bool:
    """Whether something is a data set that can only be read from its beginning."""
    return hasattr(given, "column_names") and hasattr(given, "features") and not hasattr(given, "__len__")


def is_saved(path: Path) -> bool:
    """Whether a folder was written by `save_to_disk`."""
    return any((path / name).is_file() for name in SAVED)


def open_saved(path: Path) -> Any:
    """The data set of such a folder."""
    try:
        from datasets import load_from_disk
    except ImportError:
        raise ConfigError(
            f"{short(path)} is a Hugging Face data set, which needs the package datasets: pip install datasets"
        ) from None
    try:
        return load_from_disk(str(path))
    except Exception as error:  # the package may raise anything on a damaged folder
        said = str(error).strip().splitlines()
        raise DataError(
            f"{short(path)} cannot be read as a Hugging Face data set: {said[0] if said else type(error).__name__}"
        ) from error


def halves_of(given: Mapping[str, Any]) -> dict[str, Any]:
    """The parts of a `DatasetDict`: train, and test where there is one."""
    if "train" not in given:
        raise ConfigError(f"load_data: no part 'train' among {listed(list(given))}; give one of them")
    return {"given": given["train"]} | ({"test": given["test"]} if "test" in given else {})


def from_hugging_face(
    given: Any,
    test: Any = None,
    label: str = "label",
    client: str | None = None,
    numeric: list[str] | None = None,
    categorical: list[str] | None = None,
    drop: list[str] | None = None,
    test_share: Share = 0.2,
    seed: int = 0,
) -> Dataset:
    """Columns of numbers and words as a table; or one column of images or arrays, beside the label, as samples.

    The names of a `ClassLabel` become the classes, and so do labels that are words.
    """
    halves = [
        _Half(where, half) for where, half in zip(HALVES, (given, test), strict=True) if half is not None
    ]
    for half in halves:
        half.check([label, *([client] if client else []), *(drop or ())])
    inputs = [name for name in halves[0].columns if name not in (label, client, *(drop or ()))]
    if inputs and all(halves[0].is_cell(name) for name in inputs):
        cells = _cells(halves, [*inputs, label, *([client] if client else [])], label)
        told = None if test is None else _told(cells, halves)
        return from_frame(cells, label, client, test_share, numeric, categorical, None, seed=seed, split=told)
    if len(inputs) != 1 or numeric or categorical:
        many = f"load_data: {listed(inputs) or 'no column'} beside the label"
        raise ConfigError(
            f"{many}; needs one column of images or arrays: drop = [...] leaves others out, pack_inputs joins arrays"
        )
    named = _coded(halves, label)
    pairs = [HuggingFace(half.data, inputs[0], y) for half, y in zip(halves, named.codes, strict=True)]
    clients = None if client is None else halves[0].column(client)
    return from_torch(
        pairs[0], pairs[1] if test is not None else None, named.names, clients, test_share, seed
    )


class _Half:
    """The training or the test rows, in Python's own types whatever format they were set to."""

    def __init__(self, where: str, given: Any) -> None:
        self.where = f"the Hugging Face data set ({where})"
        self.data = given.with_format(None) if hasattr(given, "with_format") else given
        self.columns = list(given.column_names)

    def check(self, needed: Sequence[str]) -> None:
        for name in needed:
            if name not in self.columns:
                raise ConfigError(f"load_data: no column {short(name)}; needs one of {listed(self.columns)}")
        if not len(self.data):
            raise fault(self.where, "holds no rows")

    def is_cell(self, name: str) -> bool:
        value = self.data[0][name]
        return value is None or isinstance(value, CELL)

    def column(self, name: str) -> list[Any]:
        return list(self.data[name])

    def class_names(self, label: str) -> tuple[str, ...] | None:
        names = getattr(self.data.features[label], "names", None)
        return None if names is None else tuple(names)


class HuggingFace:
    """Items (x, y) of a column and of labels, decoded one at a time; numbers of the type that their column has."""

    def __init__(self, data: Any, x: str, y: Rows) -> None:
        self.data, self.x, self.y, self.dtype = data, x, y, _dtype(data.features[x])

    def __len__(self) -> int:
        return len(self.data)

    def __getitem__(self, place: int) -> tuple[Any, int]:
        x = self.data[place][self.x]
        return (_array(x, self.dtype) if isinstance(x, list) else x), int(self.y[place])


def _dtype(feature: Any) -> str | None:
    """The type of the numbers of an array, or of a list of lists."""
    while hasattr(feature, "feature"):
        feature = feature.feature
    named = getattr(feature, "dtype", None)
    return named if named in np.sctypeDict else None


def _array(x: list[Any], dtype: str | None) -> AnyArray:
    """Floats as float32, of which nobody says more; whole numbers stay whole, and bytes are pixels."""
    array = np.asarray(x, dtype=dtype)
    return array.astype(np.float32) if array.dtype.kind == "f" else array


class _Named(NamedTuple):
    names: tuple[str, ...] | None
    codes: list[Rows]


def _coded(halves: Sequence[_Half], label: str) -> _Named:
    """The classes' names, where there are any, and the labels of each half as whole numbers."""
    names = halves[0].class_names(label)
    columns = [half.column(label) for half in halves]
    if isinstance(columns[0][0], str | bool):
        words = [(label, np.array([_word(cell) for cell in column])) for column in columns]
        found = named_labels(halves[0].where, words, names)
        return _Named(found.classes, found.codes)
    codes = [
        checked_labels(half.where, label, _whole(half, label, column), len(column), names)
        for half, column in zip(halves, columns, strict=True)
    ]
    return _Named(names, codes)


def _word(cell: Any) -> str:
    return "" if cell is None else str(cell)


def _whole(half: _Half, label: str, column: list[Any]) -> AnyArray:
    for row, cell in enumerate(column, start=1):
        if isinstance(cell, bool) or not isinstance(cell, int | np.integer):
            raise fault(half.where, f"{label} is {short(cell)}; needs a whole number or a word", row)
    return np.array(column)


def _cells(halves: Sequence[_Half], columns: Sequence[str], label: str) -> dict[str, list[Any]]:
    """The columns of all halves, one after the other; labels by their names."""
    for half in halves[1:]:
        half.check(columns)
    cells = {name: [cell for half in halves for cell in half.column(name)] for name in columns}
    names = halves[0].class_names(label)
    if names is not None:
        cells[label] = [_named(cell, names) for cell in cells[label]]
    return cells


def _named(place: Any, names: Sequence[str]) -> str | None:
    return names[place] if place is not None and 0 <= place < len(names) else None


def _told(cells: dict[str, list[Any]], halves: Sequence[_Half]) -> str:
    """A further column that says of each row in which half it is; its name is one that no other has."""
    name = "part"
    while name in cells:
        name += "_"
    cells[name] = [where for where, half in zip(HALVES, halves, strict=True) for _ in range(len(half.data))]
    return name
