"""Any map-style torch data set as a data set."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
import torch.utils.data
from torch import Tensor

from counterpoise.data.dataset import Dataset
from counterpoise.data.faults import MAX_BYTES, as_fault, check_share, fault
from counterpoise.data.own.labels import checked_labels
from counterpoise.data.own.npy import AnyArray
from counterpoise.data.own.samples import Checked, checked_inputs, class_names, coded_clients, join
from counterpoise.data.split import split_note, split_rows
from counterpoise.errors import ConfigError, short

Items = torch.utils.data.Dataset[Any] | Any  # anything with a length and items by number


def from_torch(
    train: Items,
    test: Items | None = None,
    classes: Sequence[str] | None = None,
    clients: Sequence[int] | Sequence[str] | None = None,
    test_share: float = 0.2,
    seed: int = 0,
) -> Dataset:
    """Each item (x, y) is read once and stacked: x a tensor, array or image, y a whole number.

    Without `test` a share of each class is the test set. `clients` names the natural client of each item of `train`;
    `classes` defaults to the attribute of that name.
    """
    source = type(train).__name__
    names = class_names(source, getattr(train, "classes", None) if classes is None else classes)
    first = _stack(train, "train", names)
    second = first if test is None else _stack(test, "test", names)
    coded = None if clients is None else coded_clients(source, np.asarray(clients), len(first.y))
    notes = ["items of a data set, each read once: random transforms are applied once"]
    if test is None:
        check_share(test_share)
        split = split_rows(source, first.y, test_share, seed)
        first, second = first.take(split.train), first.take(split.test)
        coded = None if coded is None else coded._replace(codes=coded.codes[split.train])
        notes.append(split_note(split, test_share, seed))
    return join(source, first, second, names, coded, notes)


def _stack(data: Any, half: str, classes: tuple[str, ...] | None) -> Checked:
    source = f"{type(data).__name__} ({half})"
    if not (hasattr(data, "__getitem__") and hasattr(data, "__len__")):
        raise ConfigError(f"{source} has no length or no items by number; needs a map-style torch data set")
    if not len(data):
        raise fault(source, "holds no items")
    pattern, _ = _item(source, data, 0)
    if len(data) * pattern.nbytes > MAX_BYTES:
        raise fault(source, f"{len(data):,} items of {pattern.nbytes:,} bytes; at most {MAX_BYTES:,} bytes")
    x = np.empty((len(data), *pattern.shape), pattern.dtype)
    y = np.empty(len(data), np.int64)
    for place in range(len(data)):
        inputs, label = _item(source, data, place)
        if (inputs.shape, inputs.dtype) != (pattern.shape, pattern.dtype):
            reason = f"x is {inputs.dtype} {inputs.shape}; needs {pattern.dtype} {pattern.shape}, as the first item"
            raise fault(source, reason, place + 1)
        x[place], y[place] = inputs, label
    return Checked(checked_inputs(source, "x", x), checked_labels(source, "y", y, len(y), classes))


def _item(source: str, data: Any, place: int) -> tuple[AnyArray, int]:
    with as_fault(f"{source}: row {place + 1}", "cannot be read"):
        item = data[place]
        if not isinstance(item, tuple | list) or len(item) != 2:
            raise fault(source, f"is {short(item)}; needs a pair (x, y)", place + 1)
        x = item[0].detach().cpu().numpy() if isinstance(item[0], Tensor) else np.asarray(item[0])
        y = np.asarray(item[1])
        if y.dtype.kind not in "iu" or y.size != 1 or y.max() > np.iinfo(np.int64).max:
            raise fault(source, f"y is {short(item[1])}; needs a whole number", place + 1)
    return x, int(y.item())
