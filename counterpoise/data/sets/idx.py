"""MNIST and Fashion-MNIST from their official idx files."""

from __future__ import annotations

import math
import struct
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from counterpoise.data.dataset import Dataset, Loader, dataset, pixel_scaling
from counterpoise.data.root import GIBIBYTE, find_file, read_start
from counterpoise.data.sets.assemble import check_labels, checksums, to_samples
from counterpoise.errors import DataError
from counterpoise.system.capacity import check_fits

UNSIGNED_BYTE = 8
COPIES = 2  # of the values: as read, and as a tensor
GARMENTS = "T-shirt/top,Trouser,Pullover,Dress,Coat,Sandal,Shirt,Sneaker,Bag,Ankle boot"


@dataset("mnist", paper="LeCun et al., Gradient-Based Learning Applied to Document Recognition, 1998")
def mnist() -> Loader:
    """60,000 + 10,000 grey 28x28 digits in 10 classes, from the four official idx files."""
    return _idx_loader("mnist", tuple("0123456789"), mean=0.1307, std=0.3081)


@dataset("fashion_mnist", paper="Xiao et al., Fashion-MNIST, arXiv:1708.07747, 2017")
def fashion_mnist() -> Loader:
    """60,000 + 10,000 grey 28x28 garments in 10 classes, from the four official idx files."""
    return _idx_loader("fashion_mnist", tuple(GARMENTS.split(",")), mean=0.2860, std=0.3530)


def _idx_loader(name: str, classes: tuple[str, ...], mean: float, std: float) -> Loader:
    def load(root: Path | None) -> Dataset:
        paths = {
            (part, kind): find_file(root, name, f"{part}-{kind}-ubyte")
            for part in ("train", "t10k")
            for kind in ("images-idx3", "labels-idx1")
        }
        train, test = (
            to_samples(*read_pair(paths[part, "images-idx3"], paths[part, "labels-idx1"], len(classes)))
            for part in ("train", "t10k")
        )
        scaling = pixel_scaling((mean,), (std,))
        return Dataset(name, train, test, classes, scaling, files=checksums(paths.values()))

    return load


def read_pair(images: Path, labels: Path, classes: int) -> tuple[NDArray[np.uint8], NDArray[np.uint8]]:
    """Images [n, 1, h, w] and as many labels; the headers are compared before anything is unpacked."""
    found, given = read_shape(images, dimensions=3)[0], read_shape(labels, dimensions=1)[0]
    if found != given:
        raise DataError(f"{labels}: {given} labels for the {found} images of {images.name}; needs as many")
    y = read_idx(labels, dimensions=1)
    check_labels(labels, y, classes)
    return read_idx(images, dimensions=3)[:, None], y


def read_shape(path: Path, dimensions: int) -> tuple[int, ...]:
    """The sizes in the header of an idx file of bytes: two zeros, the type, the number of sizes, each size in 4 bytes."""
    header = read_start(path, _length(dimensions))
    if header[:4] != bytes([0, 0, UNSIGNED_BYTE, dimensions]) or len(header) < _length(dimensions):
        raise DataError(
            f"{path}: starts with {header[:4].hex()}; must be 000008{dimensions:02} and {dimensions} sizes"
        )
    return struct.unpack(f">{dimensions}I", header[4:])


def read_idx(path: Path, dimensions: int) -> NDArray[np.uint8]:
    """The values of an idx file of bytes, exactly as many as its header says."""
    shape = read_shape(path, dimensions)
    size = _length(dimensions) + math.prod(shape)
    if size > GIBIBYTE:
        raise DataError(f"{path}: says it holds {size:,} bytes; at most {GIBIBYTE:,}")
    check_fits(COPIES * size, f"{path}: {size:,} bytes", DataError)
    content = read_start(path, size + 1)
    if len(content) != size:
        found = f"{len(content):,}" if len(content) < size else f"more than {size:,}"
        raise DataError(f"{path}: {found} bytes; needs {size:,}, as its header says")
    return np.frombuffer(content, np.uint8, offset=_length(dimensions)).reshape(shape)


def _length(dimensions: int) -> int:
    return 4 + 4 * dimensions
