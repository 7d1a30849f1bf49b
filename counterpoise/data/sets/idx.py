"""MNIST and Fashion-MNIST from their official idx files."""

from __future__ import annotations

import math
import struct
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from counterpoise.data.dataset import Dataset, Loader, dataset, pixel_scaling
from counterpoise.data.root import find_file, read_bytes
from counterpoise.data.sets.assemble import check_labels, checksums, to_samples
from counterpoise.errors import DataError

UNSIGNED_BYTE = 8
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
    """Images [n, 1, h, w] and as many labels."""
    x, y = read_idx(images, dimensions=3), read_idx(labels, dimensions=1)
    if len(x) != len(y):
        raise DataError(f"{labels}: {len(y)} labels for the {len(x)} images of {images.name}; legal: as many")
    check_labels(labels, y, classes)
    return x[:, None], y


def read_idx(path: Path, dimensions: int) -> NDArray[np.uint8]:
    """An idx file of bytes: two zeros, the type, the number of dimensions, each size in 4 bytes, then the values."""
    content = read_bytes(path)
    header = 4 + 4 * dimensions
    if content[:4] != bytes([0, 0, UNSIGNED_BYTE, dimensions]) or len(content) < header:
        raise DataError(
            f"{path}: starts with {content[:4].hex()}; legal: 000008{dimensions:02} and {dimensions} sizes"
        )
    shape = struct.unpack(f">{dimensions}I", content[4:header])
    if len(content) != header + math.prod(shape):
        raise DataError(
            f"{path}: {len(content):,} bytes; legal: {header + math.prod(shape):,}, as its header says"
        )
    return np.frombuffer(content, np.uint8, offset=header).reshape(shape)
