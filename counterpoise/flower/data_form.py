"""What every client's data must look like, as the server tells it."""

from __future__ import annotations

import json
import math
from typing import Any, NamedTuple

import numpy as np
import torch
from torch import Tensor

from counterpoise.data.dataset import Samples, Scaling
from counterpoise.data.limits import MAX_BYTES, MAX_CLASSES, MAX_DIMENSIONS
from counterpoise.data.tables.encoder import Encoder
from counterpoise.errors import DataError

MAX_TEXT = 16 << 20  # characters of a form
KEYS = {"classes", "shape", "pixels", "scaling", "label", "columns"}


class Form(NamedTuple):
    """What every client's data must look like: all that clients are told of the server's own data."""

    classes: tuple[str, ...]
    shape: tuple[int, ...]
    pixels: bool  # bytes that `scaling` turns into inputs
    scaling: Scaling
    label: str | None = None  # of a table: the column that holds the class,
    columns: Encoder | None = None  # and how the others become inputs

    def text(self) -> str:
        scaling = {name: tensor.tolist() for name, tensor in self.scaling._asdict().items()}
        columns = None if self.columns is None else self.columns.to_json()
        text = json.dumps({**self._asdict(), "scaling": scaling, "columns": columns})
        if len(text) > MAX_TEXT:
            raise DataError(f"the form of the data takes {len(text):,} characters; legal: {MAX_TEXT:,}")
        return text

    def no_samples(self) -> Samples:
        """The test set of a server that has none."""
        kind = torch.uint8 if self.pixels else torch.float32
        return Samples(torch.empty(0, *self.shape, dtype=kind), torch.empty(0, dtype=torch.int64))


def read_form(text: str) -> Form:
    """The form in what a server sent; one that is damaged, hostile or of another version is a DataError."""
    if len(text) > MAX_TEXT:
        raise _bad(f"has {len(text):,} characters; legal: at most {MAX_TEXT:,}")
    try:
        found = json.loads(text)
    except (ValueError, RecursionError):
        raise _bad("is no JSON") from None
    if not isinstance(found, dict) or set(found) != KEYS:
        raise _bad(f"has other parts; legal: {', '.join(sorted(KEYS))}")
    classes, shape = _classes(found["classes"]), _shape(found["shape"])
    if not isinstance(found["pixels"], bool):
        raise _bad("does not say whether inputs are pixels")
    if found["columns"] is None:
        return Form(classes, shape, found["pixels"], _scaling(found["scaling"], shape))
    columns, label = Encoder.from_json(found["columns"]), found["label"]
    if not isinstance(label, str) or label in columns.numbers or label in columns.words:
        raise _bad("does not name a label column of its own")
    if shape != (columns.width,) or found["pixels"]:
        raise _bad(f"says inputs of shape {shape}, and columns of {columns.width:,} numbers")
    return Form(classes, shape, False, _scaling(found["scaling"], shape), label, columns)


def _bad(words: str) -> DataError:
    return DataError(f"the server's description of the data {words}; is it of another version?")


def _classes(given: Any) -> tuple[str, ...]:
    if not isinstance(given, list) or not 2 <= len(given) <= MAX_CLASSES:
        raise _bad(f"names no classes; legal: 2 to {MAX_CLASSES:,}")
    if not all(isinstance(name, str) for name in given) or len(set(given)) < len(given):
        raise _bad("names classes that are no words or the same")
    return tuple(given)


def _shape(given: Any) -> tuple[int, ...]:
    whole = isinstance(given, list) and 0 < len(given) < MAX_DIMENSIONS
    if not whole or not all(type(size) is int and 0 < size <= MAX_BYTES for size in given):
        raise _bad("has no shape of a sample")
    if math.prod(given) > MAX_BYTES:
        raise _bad(f"has samples of {math.prod(given):,} numbers; legal: at most {MAX_BYTES:,}")
    return tuple(given)


def _scaling(given: Any, shape: tuple[int, ...]) -> Scaling:
    if not isinstance(given, dict) or set(given) != set(Scaling._fields):
        raise _bad("has no scaling")
    return Scaling(*(_factor(given[name], shape) for name in Scaling._fields))


def _factor(given: Any, shape: tuple[int, ...]) -> Tensor:
    """Finite numbers that fit a sample."""
    try:
        factor = torch.tensor(given, dtype=torch.get_default_dtype())
        fits = np.broadcast_shapes(tuple(factor.shape), shape) == shape and bool(factor.isfinite().all())
    except (ValueError, TypeError, RuntimeError, OverflowError):
        fits = False
    if not fits:
        raise _bad("has a scaling that fits no sample")
    return factor
