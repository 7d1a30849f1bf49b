"""SVHN, cropped digits, from its official MATLAB files."""

from __future__ import annotations

import io
import math
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from counterpoise.data.dataset import Dataset, Loader, Samples, dataset, pixel_scaling
from counterpoise.data.root import GIBIBYTE, find_file, read_bytes
from counterpoise.data.sets.assemble import check_labels, checksums, to_samples
from counterpoise.errors import DataError
from counterpoise.system.capacity import check_fits

SAMPLE = (32, 32, 3)
COPIES = 2  # of the pixels: as read, and as a tensor


@dataset(
    "svhn", paper="Netzer et al., Reading Digits in Natural Images with Unsupervised Feature Learning, 2011"
)
def svhn() -> Loader:
    """73,257 + 26,032 colour 32x32 digits in 10 classes, from train_32x32.mat and test_32x32.mat; label 10 is digit 0."""
    return _load


def _load(root: Path | None) -> Dataset:
    train, test = (find_file(root, "svhn", f"{part}_32x32.mat") for part in ("train", "test"))
    scaling = pixel_scaling((0.4377, 0.4438, 0.4728), (0.1980, 0.2010, 0.1970))
    return Dataset(
        "svhn", _read(train), _read(test), tuple("0123456789"), scaling, files=checksums([train, test])
    )


def _read(path: Path) -> Samples:
    x, y = _arrays(path)
    labels = y.reshape(-1).astype(np.int64)
    _check_form(path, str(x.dtype), x.shape, len(labels))
    check_labels(path, labels, classes=10, first=1)
    return to_samples(x.transpose(3, 2, 0, 1), labels % 10)


def _arrays(path: Path) -> tuple[NDArray[Any], NDArray[Any]]:
    from scipy.io import loadmat, whosmat

    try:
        packed = io.BytesIO(read_bytes(path))
        heads = {name: (kind, shape) for name, shape, kind in whosmat(packed)}
        _check_form(path, *heads["X"], math.prod(heads["y"][1]))  # before unpacking
        content = loadmat(packed, variable_names=["X", "y"])
        return content["X"], content["y"]
    except DataError:
        raise
    except Exception as error:  # on a damaged file loadmat raises many kinds of errors
        raise DataError(f"{path}: not a MATLAB file with X and y: {error}") from error


def _check_form(path: Path, kind: str, shape: tuple[int, ...], labels: int) -> None:
    if kind != "uint8" or shape != (*SAMPLE, labels):
        raise DataError(f"{path}: X {kind} {shape} for {labels} labels; needs uint8 (32, 32, 3, labels)")
    size = math.prod(shape)
    if size > GIBIBYTE:
        raise DataError(f"{path}: X has {size:,} bytes; at most {GIBIBYTE:,}")
    check_fits(COPIES * size, f"{path}: X", DataError)
