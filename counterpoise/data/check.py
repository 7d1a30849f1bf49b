"""Checks of samples before training: each function refuses one fault, in one line.

Samples are made in inner loops, so they are checked only where a data set is split and where a federation trains.
"""

from __future__ import annotations

import math
import re
from collections.abc import Sequence
from typing import Any

import numpy as np
import torch
from torch import Tensor

from counterpoise.errors import DataError, short

NO_NAME = re.compile(r"[\x00-\x1f\x7f-\x9f\ud800-\udfff]")  # control characters and lone surrogates


def as_tensor(where: str, given: Any) -> Tensor:
    """A tensor as it is, an array as a tensor: copied only where torch cannot share its memory (read-only)."""
    if isinstance(given, Tensor):
        return given
    try:
        return torch.from_numpy(np.require(given, requirements=["C", "W"]))
    except (TypeError, ValueError):
        kind = getattr(given, "dtype", None) or type(given).__name__
        raise DataError(f"{where} must be a tensor or an array of numbers, not {kind}") from None


def as_whole(where: str, given: Any) -> Tensor:
    """[n] int64 from whole numbers of any width."""
    found = as_tensor(where, given)
    if found.dim() != 1 or found.is_floating_point() or found.is_complex():
        raise DataError(f"{where} must be whole numbers [n], one per sample, not {_form(found)}")
    return found.long()


def is_whole(x: Tensor) -> bool:
    """Whether inputs are whole numbers; bytes are pixels."""
    return not (x.is_floating_point() or x.is_complex() or x.dtype in (torch.bool, torch.uint8))


def pair(where: str, x: Any, y: Any) -> None:
    """Inputs and labels are tensors of the same length."""
    for name, given in (("x", x), ("y", y)):
        if not isinstance(given, Tensor):
            raise DataError(
                f"{where}.{name} must be a tensor, as of torch.from_numpy, not {type(given).__name__}"
            )
    if x.shape[:1] != y.shape:
        raise DataError(f"{where}: x is {_form(x)} and y {_form(y)}; needs a row of x for each label")


def class_names(where: str, given: Any) -> None:
    """Class names are text without control characters."""
    if isinstance(given, str) or not isinstance(given, Sequence):
        raise DataError(f"{where}: classes must be names, such as ('a', 'b'), not {short(given)}")
    for name in given:
        if isinstance(name, str) and NO_NAME.search(name):
            raise DataError(f"{where}: the class name {short(name)} must be text without control characters")


def alike(where: str, train: Tensor, test: Tensor) -> None:
    """Test inputs have the shape of training inputs, and both or neither are uint8."""
    bytes_or_not = (train.dtype == torch.uint8) == (test.dtype == torch.uint8)
    if len(test) and not (train.shape[1:] == test.shape[1:] and bytes_or_not):
        raise DataError(
            f"{where}: test.x is {_form(test)} and train.x {_form(train)}; both need the same shape and kind"
        )


def labels(where: str, y: Tensor, classes: int) -> None:
    """Every label is the index of a class."""
    if y.dtype != torch.int64:
        raise DataError(f"{where}.y must be int64 [n], as of y.long(), not {_form(y)}")
    if (stray := _outside(y, classes)) is not None:
        raise DataError(
            f"{where}.y holds the label {stray}; must be 0 to {classes - 1} with {classes} classes"
        )


def owners(where: str, clients: Tensor, samples: int, names: int) -> None:
    """Every training sample has one natural client, with a name where clients have names."""
    if len(clients) != samples:
        raise DataError(
            f"{where}: clients has {len(clients):,} entries; needs {samples:,}, one per training sample"
        )
    if names and (stray := _outside(clients, names)) is not None:
        raise DataError(f"{where}: clients holds {stray}; must be 0 to {names - 1} with {names} client_names")


def finite(where: str, x: Tensor) -> None:
    """No input is NaN or infinite: one pass without a copy, since the minimum or maximum is then not finite either."""
    if not x.is_floating_point() or not x.numel() or all(math.isfinite(bound) for bound in x.aminmax()):
        return
    bad = ~torch.isfinite(x.reshape(len(x), -1)).all(1)
    raise DataError(
        f"{where}.x holds NaN or infinity in {int(bad.sum()):,} of {len(x):,} rows, first in row {int(bad.nonzero()[0])}; needs finite numbers"
    )


def _outside(numbers: Tensor, count: int) -> int | None:
    """One of the numbers that is not in 0 to count - 1."""
    bounds = [int(bound) for bound in numbers.aminmax()] if len(numbers) else []
    return next((bound for bound in bounds if not 0 <= bound < count), None)


def _form(given: Tensor) -> str:
    return f"{str(given.dtype).removeprefix('torch.')} {list(given.shape)}"
