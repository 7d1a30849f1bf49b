"""What a data set is: two sets of samples, class names, and how raw inputs become floats."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from counterpoise.data import check
from counterpoise.data.tables.encoder import Encoder
from counterpoise.errors import DataError
from counterpoise.registry.registry import Registry


class Samples(NamedTuple):
    """Inputs and labels, row by row."""

    x: Tensor  # [n, ...] uint8, whole numbers or floats
    y: Tensor  # [n] int64

    def take(self, rows: Tensor) -> Samples:
        return Samples(self.x[rows], self.y[rows])


class Assignment(NamedTuple):
    """Training rows of each client, its held-out rows, and the rows that the server keeps for validation."""

    clients: Sequence[NDArray[np.int64]]
    held_out: Sequence[NDArray[np.int64]] = ()
    validation: NDArray[np.int64] | None = None


class Source(NamedTuple):
    """How a user's data became samples, beside the scaling: what new data is read by."""

    label: str | None = None  # of a table: the label column
    columns: Encoder | None = None  # and the encoder of the others
    labels: Mapping[str, int] | None = None  # label in the data -> class; None: data holds the classes' names
    resized: bool = False  # images were brought to one size

    def to_json(self) -> dict[str, Any] | None:
        """JSON values, from which `source_from_json` makes an equal one; None where there is nothing to say."""
        if self == Source():
            return None
        columns = None if self.columns is None else self.columns.to_json()
        labels = None if self.labels is None else dict(self.labels)
        return {"label": self.label, "columns": columns, "labels": labels, "resized": self.resized}


def source_from_json(found: Any, classes: int) -> Source:
    """The source of untrusted JSON; a DataError where it is not one."""
    if found is None:
        return Source()
    if not isinstance(found, dict) or set(found) != set(Source._fields):
        raise DataError(f"the source of the data needs {', '.join(Source._fields)}")
    columns, label, labels = (found[key] for key in ("columns", "label", "labels"))
    fits = label is None or isinstance(label, str)
    if (
        not fits
        or not isinstance(found["resized"], bool)
        or not (labels is None or are_labels(labels, classes))
    ):
        raise DataError("the source of the data does not say how labels are read")
    return Source(label, None if columns is None else Encoder.from_json(columns), labels, found["resized"])


def are_labels(given: Any, classes: int) -> bool:
    """Whether something says of labels which class each means."""
    return isinstance(given, dict) and all(
        type(place) is int and 0 <= place < classes for place in given.values()
    )


class Scaling(NamedTuple):
    """Raw input to model input: ``x * scale + shift``, broadcast over a sample; in whole numbers it leaves token ids alone."""

    scale: Tensor
    shift: Tensor

    def __call__(self, x: Tensor) -> Tensor:
        return x.to(self.scale.dtype) * self.scale + self.shift

    @property
    def whole(self) -> bool:
        """Whether the model takes whole numbers as they are."""
        return not self.scale.is_floating_point()

    def to(self, *where: torch.device | torch.dtype) -> Scaling:
        """Placed, and in another type, unless it is of whole numbers."""
        scale, shift = self
        for place in where:
            if self.whole and isinstance(place, torch.dtype):
                continue
            scale, shift = scale.to(place), shift.to(place)
        return Scaling(scale, shift)


def _fitting_samples(where: str, given: Any, classes: int) -> Samples:
    """Samples as tensors with int64 labels of known classes; arrays are converted."""
    if not isinstance(given, Samples):
        raise DataError(f"{where} must be Samples(x, y), not {type(given).__name__}")
    x, y = check.as_tensor(f"{where}.x", given.x), check.as_whole(f"{where}.y", given.y)
    check.pair(where, x, y)
    check.labels(where, y, classes)
    return given if x is given.x and y is given.y else Samples(x, y)


def pixel_scaling(mean: tuple[float, ...], std: tuple[float, ...]) -> Scaling:
    """uint8 pixels [C, H, W] to zero mean and unit deviation; mean and std are those of pixels in [0, 1]."""
    means, stds = torch.tensor(mean).view(-1, 1, 1), torch.tensor(std).view(-1, 1, 1)
    return Scaling(1 / (255 * stds), -means / stds)


def no_scaling() -> Scaling:
    return Scaling(torch.tensor(1.0), torch.tensor(0.0))


def whole_scaling() -> Scaling:
    """Of inputs that are whole numbers, such as token ids, and stay so."""
    return Scaling(torch.tensor(1), torch.tensor(0))


@dataclass(frozen=True)
class Dataset:
    """Training and test samples of one task, before a partition splits the training set among clients."""

    name: str
    train: Samples
    test: Samples
    classes: tuple[str, ...]
    scaling: Scaling = field(default_factory=no_scaling)
    clients: Tensor | None = None  # [n] natural client of each training sample, where the data has one
    client_names: tuple[str, ...] = ()
    files: Mapping[str, str] = field(default_factory=dict)  # file name -> SHA-256, for the run's record
    notes: tuple[str, ...] = ()  # what was dropped, filled in or split, in words
    assignment: Assignment | None = None  # who holds what, where that is fixed already
    source: Source = field(default_factory=Source)
    official: tuple[
        int, ...
    ] = ()  # training samples of each class in the whole set, where this is a part of it

    def __repr__(self) -> str:
        """In words: a notebook shows the last value of a cell, and samples fill pages."""
        samples = f"{len(self.train.y):,} training and {len(self.test.y):,} test samples"
        return f"{self.name}: {samples} of {len(self.classes)} classes"

    def fitted(self) -> Dataset:
        """The data set with arrays as tensors, or a DataError where its parts do not fit together."""
        check.class_names(self.name, self.classes)
        count, clients = len(self.classes), self.clients
        train = _fitting_samples(f"{self.name}: train", self.train, count)
        test = _fitting_samples(f"{self.name}: test", self.test, count)
        check.alike(self.name, train.x, test.x)
        if clients is not None:
            clients = check.as_whole(f"{self.name}: clients", clients)
            check.owners(self.name, clients, len(train.y), len(self.client_names))
        same = train is self.train and test is self.test and clients is self.clients
        return self if same else replace(self, train=train, test=test, clients=clients)

    def check_finite(self) -> None:
        """Refuse NaN and infinity: one pass over floats, done once, where the data is split among clients."""
        check.finite(f"{self.name}: train", self.train.x)
        check.finite(f"{self.name}: test", self.test.x)

    @property
    def input_shape(self) -> tuple[int, ...]:
        return tuple(self.train.x.shape[1:])

    def keep(self, rows: Tensor) -> Dataset:
        """The data set with only these training rows."""
        clients = None if self.clients is None else self.clients[rows]
        return replace(self, train=self.train.take(rows), clients=clients)

    def assigned(self, assignment: Assignment) -> Dataset:
        """The data set with a fixed assignment of rows to clients."""
        return replace(self, assignment=assignment)


# Data root, or None where the data ships with a dependency -> data set
Loader = Callable[[Path | None], Dataset]


DATASETS: Registry[Loader] = Registry("data set", ["counterpoise.data.sets"])
dataset = DATASETS.register
