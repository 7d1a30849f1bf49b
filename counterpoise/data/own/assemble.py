"""What every kind of file has in common once it is read: classes checked, rows split, clients numbered."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import NamedTuple

import numpy as np
import torch
from torch import Tensor

from counterpoise.core.rng import numpy_generator
from counterpoise.data.columns import TrainTest, stratified_split
from counterpoise.data.dataset import Scaling, no_scaling, pixel_scaling
from counterpoise.data.own.faults import fault
from counterpoise.data.own.limits import MAX_CLASSES
from counterpoise.data.partition import Rows
from counterpoise.errors import listed

PIXEL_VALUES = 256
PIXEL_DIMENSIONS = 4  # [n, C, H, W]


class Clients(NamedTuple):
    """Natural clients of the training rows, numbered without gaps."""

    codes: Tensor | None = None
    names: tuple[str, ...] = ()
    notes: tuple[str, ...] = ()


def check_class_count(source: Path | str, count: int) -> None:
    if not 2 <= count <= MAX_CLASSES:
        raise fault(
            source, f"holds {count:,} {'class' if count == 1 else 'classes'}; legal: 2 to {MAX_CLASSES:,}"
        )


def split_rows(source: Path | str, y: Rows, test_share: float, seed: int) -> TrainTest:
    """Each class gives its share of rows to the test set, and keeps at least one."""
    count = len(np.unique(y))
    check_class_count(source, count)
    if count == len(y):
        raise fault(source, "every class has one sample, so none can be kept for the test")
    return stratified_split(y, test_share, numpy_generator(seed, "test rows"))


def split_note(split: TrainTest, test_share: float, seed: int) -> str:
    rows = len(split.train) + len(split.test)
    return (
        f"{len(split.test):,} of {rows:,} samples are for the test: {test_share:g} of each class, seed {seed}"
    )


def check_coverage(source: Path | str, classes: Sequence[str], train: Rows, test: Rows) -> tuple[str, ...]:
    """Refuse a class that cannot be learnt; note those that the test set cannot judge."""
    trained, tested = (np.bincount(y, minlength=len(classes)) > 0 for y in (train, test))
    for place in np.flatnonzero(~trained).tolist():
        raise fault(
            source, f"class {classes[place]!r} has {'test samples only' if tested[place] else 'no samples'}"
        )
    untested = [classes[place] for place in np.flatnonzero(~tested).tolist()]
    return (f"no test sample of class: {listed(untested)}",) if untested else ()


def natural_clients(names: tuple[str, ...], codes: Rows) -> Clients:
    """Clients of the training rows; those whose only rows went to the test set are left out."""
    present, numbered = np.unique(codes, return_inverse=True)
    absent = len(names) - len(present)
    notes = (f"{absent} clients have no training sample and are left out",) if absent else ()
    kept = tuple(names[place] for place in present)
    return Clients(torch.from_numpy(numbered.astype(np.int64)), kept, notes)


def measured_scaling(x: Tensor) -> Scaling:
    """Pixels to zero mean and unit deviation over the training set, a channel at a time; other inputs stay as they are."""
    if x.dtype != torch.uint8:
        return no_scaling()
    if x.dim() != PIXEL_DIMENSIONS:
        scale, shift = pixel_scaling(*_pixel_statistics([x]))
        return Scaling(scale.view(()), shift.view(()))
    return pixel_scaling(*_pixel_statistics([x[:, channel] for channel in range(x.shape[1])]))


def _pixel_statistics(channels: list[Tensor]) -> tuple[tuple[float, ...], tuple[float, ...]]:
    """Means and deviations of pixels in [0, 1], exact by way of the histogram."""
    counts = torch.stack([torch.bincount(pixels.reshape(-1), minlength=PIXEL_VALUES) for pixels in channels])
    values = torch.arange(PIXEL_VALUES, dtype=torch.float64) / (PIXEL_VALUES - 1)
    shares = counts / counts.sum(dim=1, keepdim=True, dtype=torch.float64)
    means = shares @ values
    deviations = (shares @ values.square() - means.square()).clamp(min=0).sqrt()
    return tuple(means.tolist()), tuple(torch.where(deviations > 1e-6, deviations, 1.0).tolist())
