"""What data looks like once it is read: classes, shape, scaling, and of a table its encoder, as JSON and back."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any, NamedTuple, TypeAlias

import numpy as np
import torch
from torch import Tensor

from counterpoise.data.dataset import Samples, Scaling, whole_scaling
from counterpoise.data.faults import MAX_BYTES, MAX_CLASSES, MAX_DIMENSIONS
from counterpoise.data.tables.encoder import Encoder
from counterpoise.errors import CounterpoiseError

IMAGE_DIMENSIONS = 3  # channels, height, width
KEYS = {"classes", "shape", "pixels", "scaling", "label", "columns"}

Bad: TypeAlias = Callable[[str], CounterpoiseError]  # what is wrong -> the error that says whose form it is


class DataForm(NamedTuple):
    """What a model takes: all that anybody needs to bring other data into the same form."""

    classes: tuple[str, ...]
    shape: tuple[int, ...]
    pixels: bool  # uint8, which `scaling` turns into inputs
    scaling: Scaling
    label: str | None = None  # of a table: the label column
    columns: Encoder | None = None  # and the encoder of the others

    def to_json(self) -> dict[str, Any]:
        """JSON values, from which `form_from_json` makes an equal form."""
        scaling = {name: tensor.tolist() for name, tensor in self.scaling._asdict().items()}
        columns = None if self.columns is None else self.columns.to_json()
        return {
            **self._asdict(),
            "classes": list(self.classes),
            "shape": list(self.shape),
            "scaling": scaling,
            "columns": columns,
        }

    @property
    def kind(self) -> torch.dtype:
        """The type of inputs before they are scaled."""
        return torch.uint8 if self.pixels else torch.int64 if self.scaling.whole else torch.float32

    def no_samples(self) -> Samples:
        """An empty test set of this form."""
        return Samples(torch.empty(0, *self.shape, dtype=self.kind), torch.empty(0, dtype=torch.int64))


def form_from_json(found: Any, bad: Bad) -> DataForm:
    """The form of untrusted JSON; the error that `bad` makes where it is not one."""
    if not isinstance(found, dict) or set(found) != KEYS:
        raise bad(f"has other parts; needs {', '.join(sorted(KEYS))}")
    classes, shape = _classes(found["classes"], bad), _shape(found["shape"], bad)
    if not isinstance(found["pixels"], bool):
        raise bad("does not say whether inputs are pixels")
    scaling = _scaling(found["scaling"], shape, bad)
    if scaling.whole and (found["pixels"] or found["columns"] is not None):
        raise bad("has whole numbers as inputs, but pixels or columns")
    if found["columns"] is None:
        return DataForm(classes, shape, found["pixels"], scaling)
    columns, label = Encoder.from_json(found["columns"]), found["label"]
    if not isinstance(label, str) or label in columns.numbers or label in columns.words:
        raise bad("does not name a label column of its own")
    if shape != (columns.width,) or found["pixels"]:
        raise bad(f"has inputs of shape {shape}, but columns of {columns.width:,} inputs")
    return DataForm(classes, shape, False, scaling, label, columns)


def _classes(given: Any, bad: Bad) -> tuple[str, ...]:
    if not isinstance(given, list) or not 2 <= len(given) <= MAX_CLASSES:
        raise bad(f"names no classes; needs 2 to {MAX_CLASSES:,}")
    if not all(isinstance(name, str) for name in given) or len(set(given)) < len(given):
        raise bad("names classes that are not text or not different")
    return tuple(given)


def _shape(given: Any, bad: Bad) -> tuple[int, ...]:
    whole = isinstance(given, list) and 0 < len(given) < MAX_DIMENSIONS
    if not whole or not all(type(size) is int and 0 < size <= MAX_BYTES for size in given):
        raise bad(f"has no shape of a sample; needs 1 to {MAX_DIMENSIONS - 1} sizes, each 1 or more")
    if math.prod(given) > MAX_BYTES:
        raise bad(f"has samples of {math.prod(given):,} numbers; at most {MAX_BYTES:,}")
    return tuple(given)


def _scaling(given: Any, shape: tuple[int, ...], bad: Bad) -> Scaling:
    if not isinstance(given, dict) or set(given) != set(Scaling._fields):
        raise bad("has no scaling")
    if all(type(factor) is int for factor in given.values()):  # 1 and 0, where floats are 1.0 and 0.0
        if given != {"scale": 1, "shift": 0}:
            raise bad("scales whole numbers")
        return whole_scaling()
    return Scaling(*(_factor(given[name], shape, bad) for name in Scaling._fields))


def _factor(given: Any, shape: tuple[int, ...], bad: Bad) -> Tensor:
    """Finite numbers that broadcast to a sample."""
    try:
        factor = torch.tensor(given, dtype=torch.get_default_dtype())
        fits = np.broadcast_shapes(tuple(factor.shape), shape) == shape and bool(factor.isfinite().all())
    except (ValueError, TypeError, RuntimeError, OverflowError):
        fits = False
    if not fits:
        raise bad("has a scaling that does not fit a sample")
    return factor
