"""A prepared data set: its samples, its assignment to clients, and how it was made."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, NamedTuple

import numpy as np
import torch
from torch import Tensor

from counterpoise.data.dataset import Assignment, Dataset, Samples
from counterpoise.data.faults import MAX_CLASSES
from counterpoise.data.types import Rows


class Pack(NamedTuple):
    """The content of one file."""

    dataset: Dataset
    assignment: Assignment
    record: Mapping[str, Any]


def check_pack(pack: Pack) -> None:
    """Raise a ValueError for the first thing that does not fit the rest."""
    dataset = pack.dataset
    check_classes(len(dataset.classes))
    for name, samples in (("training", dataset.train), ("test", dataset.test)):
        _check_samples(name, samples, len(dataset.classes))
    _require(
        dataset.test.x.shape[1:] == dataset.train.x.shape[1:],
        "test samples have another shape than training samples",
    )
    for part in dataset.scaling:
        _require(_finite(part), "the scaling is not finite")
        _require(
            np.broadcast_shapes(tuple(part.shape), dataset.input_shape) == dataset.input_shape,
            "the scaling does not fit a sample",
        )
    if dataset.clients is not None:
        _require(
            len(dataset.clients) == len(dataset.train.y), "natural clients are not one per training sample"
        )
        _check_places("natural clients", dataset.clients.numpy(), len(dataset.client_names))
    _check_assignment(pack.assignment, len(dataset.train.y))


def check_classes(count: int) -> None:
    _require(count <= MAX_CLASSES, f"holds {count:,} classes; at most {MAX_CLASSES:,}")


def _check_samples(name: str, samples: Samples, classes: int) -> None:
    x, y = samples
    _require(
        x.dim() >= 2 and x.numel() > 0 and len(x) == len(y),
        f"{name} inputs and labels are empty or differ in number",
    )
    _require(
        x.dtype in (torch.uint8, torch.int64) or _finite(x),
        f"{name} inputs are neither pixels nor finite numbers",
    )
    _check_places(f"{name} labels", y.numpy(), classes)


def _finite(x: Tensor) -> bool:
    return x.is_floating_point() and bool(x.isfinite().all())


def _check_assignment(assignment: Assignment, samples: int) -> None:
    for rows in assignment.clients:
        _check_places("client rows", rows, samples)
    for rows in assignment.held_out:
        _check_places("held-out rows", rows, samples)
    if assignment.validation is not None:
        _check_places("validation rows", assignment.validation, samples)


def _check_places(name: str, places: Rows, count: int) -> None:
    _require(
        places.dtype == np.int64 and places.ndim == 1, f"{name} are not a vector of 64-bit whole numbers"
    )
    _require(
        not len(places) or 0 <= int(places.min()) <= int(places.max()) < count,
        f"{name} are not all in 0 to {count - 1}",
    )


def _require(fits: bool, otherwise: str) -> None:
    if not fits:
        raise ValueError(otherwise)
