"""Arrays of inputs, labels and clients: every row is checked, then they become a data set."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import NamedTuple

import numpy as np
import torch
from torch import Tensor

from counterpoise.data import check
from counterpoise.data.dataset import Dataset, Samples, Scaling, Source, no_scaling, pixel_scaling
from counterpoise.data.faults import MAX_NUMBER, as_fault, fault
from counterpoise.data.own.forms import (
    PIXEL_DIMENSIONS,
    check_alike,
    check_client_form,
    check_input_form,
)
from counterpoise.data.own.npy import AnyArray
from counterpoise.data.split import Clients, check_class_count, check_coverage, natural_clients
from counterpoise.data.tables.cells import Coded
from counterpoise.data.types import Rows
from counterpoise.errors import listed, short

COLOURS = (1, 3)
PIXEL_VALUES = 256


class Checked(NamedTuple):
    """Finite inputs and labels from 0 on, of equal length."""

    x: AnyArray  # [n, ...] uint8, int64 or float32
    y: Rows  # [n]

    def take(self, rows: Rows) -> Checked:
        return Checked(self.x[rows], self.y[rows])


class Renumbered(NamedTuple):
    """Labels as indices into the classes."""

    classes: tuple[str, ...]
    train: Rows
    test: Rows
    notes: tuple[str, ...] = ()


def checked_inputs(source: Path | str, name: str, x: AnyArray) -> AnyArray:
    """uint8 as it is, other whole numbers as int64, all others as float32 and finite."""
    check_input_form(source, name, x)
    if x.dtype == np.uint8:
        return x
    if x.dtype.kind in "iu" and x.max() <= np.iinfo(np.int64).max:
        return x.astype(np.int64, copy=False)
    with np.errstate(over="ignore"):  # found by its row below
        numbers = x.astype(np.float32, copy=False)
    finite = np.isfinite(numbers)
    if not finite.all():
        place = np.unravel_index(int(finite.argmin()), x.shape)
        raise fault(
            source,
            f"{name} holds {x[place]}; needs numbers of at most {MAX_NUMBER:.4g} in size",
            int(place[0]) + 1,
        )
    return numbers


def coded_clients(source: Path | str, clients: AnyArray, samples: int) -> Coded:
    """Clients named by whole numbers or words, one per training sample."""
    check_client_form(source, clients, samples)
    with as_fault(source, "client cannot be read"):
        names, codes = np.unique(clients, return_inverse=True)
        return Coded(tuple(names.astype(np.str_).tolist()), codes.astype(np.int64))


def join(
    source: Path | str,
    train: Checked,
    test: Checked,
    classes: tuple[str, ...] | None = None,
    clients: Coded | None = None,
    notes: Sequence[str] = (),
    files: Mapping[str, str] | None = None,
) -> Dataset:
    """The data set of checked training and test samples; labels without class names are renumbered without gaps."""
    check_alike(source, train.x, test.x)
    train, test = _of_one_kind(train, test)
    labels = _renumber(source, train.y, test.y) if classes is None else Renumbered(classes, train.y, test.y)
    check_class_count(source, len(labels.classes))
    check.class_names(str(source), labels.classes)
    coverage = check_coverage(source, labels.classes, labels.train, labels.test)
    turned = ("channels moved from last to first",) if _channels_last(train.x) else ()
    natural = Clients() if clients is None else natural_clients(*clients)
    samples = Samples(image_tensor(train.x), torch.from_numpy(labels.train))
    return Dataset(
        Path(source).stem,
        samples,
        Samples(image_tensor(test.x), torch.from_numpy(labels.test)),
        labels.classes,
        measured_scaling(samples.x),
        natural.codes,
        natural.names,
        files or {},
        (*notes, *labels.notes, *turned, *coverage, *natural.notes),
        source=Source(labels=_by_number(labels.classes, classes)),
    )


def _of_one_kind(train: Checked, test: Checked) -> tuple[Checked, Checked]:
    """Whole numbers stay so only where both halves have them."""
    if train.x.dtype == test.x.dtype:
        return train, test
    return train._replace(x=train.x.astype(np.float32)), test._replace(x=test.x.astype(np.float32))


def _by_number(names: tuple[str, ...], given: tuple[str, ...] | None) -> dict[str, int]:
    """What labels in the data mean: places among names that were given, else the names, which are the labels."""
    return {str(place) if given is not None else name: place for place, name in enumerate(names)}


def by_words(data: Dataset) -> Dataset:
    """The data set whose labels in files are the names of its classes."""
    labels = {name: place for place, name in enumerate(data.classes)}
    return replace(data, source=data.source._replace(labels=labels))


def class_names(source: Path | str, classes: Sequence[str] | AnyArray | None) -> tuple[str, ...] | None:
    """Names given for the classes 0, 1, ..., all different."""
    if classes is None:
        return None
    with as_fault(source, "classes cannot be read"):
        words = np.asarray(classes).astype(np.str_)
        names = words.tolist()  # inside the block: an array can hold numbers that are not characters
    if words.ndim != 1 or len(set(names)) < len(words):
        raise fault(source, f"classes are {short(names)}; needs a list of different names")
    return tuple(names)


def _renumber(source: Path | str, train: Rows, test: Rows) -> Renumbered:
    """Classes are the labels of the training samples, in order."""
    known, codes = np.unique(train, return_inverse=True)
    names = tuple(str(label) for label in known)
    places = np.searchsorted(known, test).clip(max=len(known) - 1)
    unknown = known[places] != test
    if unknown.any():
        row = int(unknown.argmax())
        raise fault(source, f"test label {test[row]} is in no training sample", row + 1)
    notes = (f"labels renumbered from 0: {listed(names)}",) if known[-1] >= len(known) else ()
    return Renumbered(names, codes.astype(np.int64), places.astype(np.int64), notes)


def _channels_last(x: AnyArray) -> bool:
    return x.ndim == PIXEL_DIMENSIONS and x.shape[-1] in COLOURS and x.shape[1] not in COLOURS


def image_tensor(x: AnyArray) -> Tensor:
    """Images as [n, C, H, W]: channels last are moved first, grey pixels get a channel axis."""
    if _channels_last(x):
        x = x.transpose(0, 3, 1, 2)
    elif x.dtype == np.uint8 and x.ndim == PIXEL_DIMENSIONS - 1:
        x = x[:, None]
    return torch.from_numpy(np.ascontiguousarray(x))


def measured_scaling(x: Tensor) -> Scaling:
    """Pixels to zero mean and unit deviation over the training set, per channel; other inputs stay as they are."""
    if x.dtype != torch.uint8:
        return no_scaling()
    if x.dim() != PIXEL_DIMENSIONS:
        scale, shift = pixel_scaling(*_pixel_statistics([x]))
        return Scaling(scale.view(()), shift.view(()))
    return pixel_scaling(*_pixel_statistics([x[:, channel] for channel in range(x.shape[1])]))


def _pixel_statistics(channels: list[Tensor]) -> tuple[tuple[float, ...], tuple[float, ...]]:
    """Means and deviations of pixels in [0, 1], computed exactly from the histogram."""
    counts = torch.stack([torch.bincount(pixels.reshape(-1), minlength=PIXEL_VALUES) for pixels in channels])
    values = torch.arange(PIXEL_VALUES, dtype=torch.float64) / (PIXEL_VALUES - 1)
    shares = counts / counts.sum(dim=1, keepdim=True, dtype=torch.float64)
    means = shares @ values
    deviations = (shares @ values.square() - means.square()).clamp(min=0).sqrt()
    return tuple(means.tolist()), tuple(torch.where(deviations > 1e-6, deviations, 1.0).tolist())
