"""From arrays to a data set: the last step of every loader."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray

from counterpoise.data.dataset import Dataset, Samples, Source
from counterpoise.data.root import sha256_of
from counterpoise.data.split import TrainTest
from counterpoise.data.tables.encoder import Encoded
from counterpoise.data.types import Rows
from counterpoise.errors import DataError


def to_samples(x: NDArray[Any], y: NDArray[Any]) -> Samples:
    """A copy as tensors: memory that was read from a buffer may be read-only."""
    return Samples(torch.tensor(x), torch.tensor(y, dtype=torch.int64))


def checksums(paths: Iterable[Path]) -> dict[str, str]:
    return {path.name: sha256_of(path) for path in paths}


def check_labels(path: Path, labels: NDArray[Any], classes: int, first: int = 0) -> None:
    last = first + classes - 1
    wrong = np.flatnonzero((labels < first) | (labels > last))
    if len(wrong):
        raise DataError(f"{path}: label {labels[wrong[0]]} in row {wrong[0] + 1}; must be {first} to {last}")


def tabular(
    name: str,
    encoded: Encoded,
    y: Rows,
    classes: tuple[str, ...],
    split: TrainTest,
    paths: Iterable[Path],
    *notes: str,
    label: str,
    labels: Mapping[str, int] | None = None,
) -> Dataset:
    """A data set of encoded rows; `notes` come before those of the encoding.

    `label` is the label column; `labels` says which class a label in the file means, where that is not its own name.
    """
    return Dataset(
        name,
        train=to_samples(encoded.x[split.train], y[split.train]),
        test=to_samples(encoded.x[split.test], y[split.test]),
        classes=classes,
        files=checksums(paths),
        notes=(*notes, *encoded.notes),
        source=Source(label, encoded.encoder, labels),
    )
