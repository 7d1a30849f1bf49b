"""Data that a Python program holds already: a frame, a torch data set, a Hugging Face data set, a path."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Annotated, Any

import numpy as np

from counterpoise.data.dataset import Dataset
from counterpoise.data.own.torch_dataset import from_torch
from counterpoise.data.split import split_note
from counterpoise.data.tables.frame import frame_table, is_rows
from counterpoise.data.tables.skipped import OnError
from counterpoise.data.tables.table import dataset_of, fitted_table
from counterpoise.errors import ConfigError, listed, short
from counterpoise.registry.schema import Interval
from counterpoise.registry.settings import check_arguments, read_parameters, refuse_unknown

Share = Annotated[float, Interval(0, 0.5, open_low=True, open_high=True)]
TAKEN = "a name, a Path, a frame, a torch data set with items (x, y), or a Hugging Face data set"


def in_memory(given: Any, arguments: Mapping[str, Any]) -> Dataset:
    """The data set of what a program holds, by its kind; unknown arguments are refused."""
    if isinstance(given, Dataset):
        return _read(lambda: given, arguments)
    if isinstance(given, Path):
        from counterpoise.data.own import open_data

        return _read(open_data, arguments, path=given)
    if isinstance(given, Mapping) and given and all(map(is_hugging_face, given.values())):
        return in_memory(*_halves(given, arguments))
    if is_hugging_face(given):
        return _read(from_hugging_face, arguments, given=given)
    if hasattr(given, "__getitem__") and hasattr(given, "__len__") and not is_rows(given):
        return _read(from_torch, arguments, train=given)
    if is_rows(given):
        return _read(from_frame, arguments, given=given)
    raise ConfigError(f"load_data: name must be a word, not {short(given)}; needs {TAKEN}")


def from_frame(
    given: Any,
    label: str | None = None,
    client: str | None = None,
    test_share: Share = 0.2,
    numeric: list[str] | None = None,
    categorical: list[str] | None = None,
    drop: list[str] | None = None,
    on_error: OnError = "stop",
) -> Dataset:
    """A data frame, columns by name, or one dict per row, read as a file with these cells would be."""
    table = frame_table(given)
    if label is None:
        raise ConfigError(
            f"load_data: label is missing; needs the column of the classes, one of {listed(list(table.columns))}"
        )
    fitted = fitted_table(table, label, client, test_share, 0, numeric, categorical, drop, on_error)
    data = dataset_of(fitted, label, client, split_note(fitted.split, test_share, 0))
    return replace(data, name="frame")


def is_hugging_face(given: Any) -> bool:
    """Whether something has the columns and features of a `datasets.Dataset`, which need not be installed."""
    return all(hasattr(given, name) for name in ("column_names", "features", "__getitem__", "__len__"))


def from_hugging_face(
    given: Any,
    test: Any = None,
    label: str = "label",
    client: str | None = None,
    drop: list[str] | None = None,
    test_share: Share = 0.2,
) -> Dataset:
    """Columns of numbers and words as a table; or one column of images or arrays, beside the label, as samples.

    The names of a `ClassLabel` become the classes.
    """
    columns = list(given.column_names)
    for name in filter(None, (label, client, *(drop or ()))):
        if name not in columns:
            raise ConfigError(f"load_data: no column {short(name)}; needs one of {listed(columns)}")
    inputs = [name for name in columns if name not in (label, client, *(drop or ()))]
    names = getattr(given.features[label], "names", None)
    if inputs and all(np.isscalar(given[0][name]) or given[0][name] is None for name in inputs):
        if test is not None:
            raise ConfigError("load_data: test goes with images and arrays; a table is split by test_share")
        return _table(
            given, [*inputs, label, *([client] if client else [])], label, client, names, test_share
        )
    if len(inputs) != 1:
        many = f"load_data: {listed(inputs) or 'no column'} beside the label"
        raise ConfigError(f"{many}; needs one column of images or arrays: drop = [...] leaves others out")
    pairs = [None if half is None else Pairs(half, inputs[0], label) for half in (given, test)]
    clients = None if client is None else list(given[client])
    return from_torch(pairs[0], pairs[1], names, clients, test_share)


class Pairs:
    """Items (x, y) of two columns, decoded one at a time."""

    def __init__(self, data: Any, x: str, y: str) -> None:
        self.data, self.x, self.y = data, x, y

    def __len__(self) -> int:
        return len(self.data)

    def __getitem__(self, place: int) -> tuple[Any, Any]:
        item = self.data[place]
        x = item[self.x]
        return (np.asarray(x, dtype=np.float32) if isinstance(x, list) else x), item[self.y]


def _table(
    given: Any,
    columns: Sequence[str],
    label: str,
    client: str | None,
    names: Sequence[str] | None,
    test_share: float,
) -> Dataset:
    cells = {name: list(given[name]) for name in columns}
    if names is not None:
        cells[label] = [names[place] if 0 <= place < len(names) else None for place in cells[label]]
    return from_frame(cells, label, client, test_share)


def _halves(given: Mapping[str, Any], arguments: Mapping[str, Any]) -> tuple[Any, Mapping[str, Any]]:
    """The parts of a `DatasetDict`: train, and test where there is one."""
    if "train" not in given:
        raise ConfigError(f"load_data: no part 'train' among {listed(list(given))}; give one of them")
    test = {"test": given["test"]} if "test" in given else {}
    return given["train"], {**test, **arguments}


def _read(reader: Callable[..., Dataset], arguments: Mapping[str, Any], **given: Any) -> Dataset:
    """What a reader makes of arguments that it knows, each of the right type."""
    known = [name for name in read_parameters(reader) if name not in given]
    refuse_unknown("load_data", arguments, known, {})
    check_arguments("load_data", reader, **arguments)
    return reader(**given, **arguments)
