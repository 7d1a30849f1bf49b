"""Lossless image sheets: a batch of 32x32 images as the tiles of one picture, with labels.npz beside it."""

from __future__ import annotations

import io
import itertools
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from counterpoise.data.dataset import Dataset, Samples, Scaling
from counterpoise.data.root import find_file, look_for, read_bytes, read_npz
from counterpoise.data.sets.assemble import check_labels, checksums, to_samples
from counterpoise.errors import DataError

SIDE = 32


def load_sheets(name: str, root: Path | None, classes: int, scaling: Scaling) -> Dataset:
    """data_batch_1.webp and on for training, test_batch.webp, and labels.npz with train, test and classes."""
    labels = find_file(root, name, "labels.npz")
    arrays = read_npz(labels, "train", "test", "classes")
    if len(arrays["classes"]) != classes:
        raise DataError(f"{labels}: {len(arrays['classes'])} classes; legal: {classes}")
    sheets = [find_file(root, name, "data_batch_1.webp"), *_further_sheets(name, root)]
    test_sheet = find_file(root, name, "test_batch.webp")
    return Dataset(
        name,
        train=_join(sheets, labels, arrays["train"], classes),
        test=_join([test_sheet], labels, arrays["test"], classes),
        classes=tuple(str(word) for word in arrays["classes"]),
        scaling=scaling,
        files=checksums([*sheets, test_sheet, labels]),
    )


def read_sheet(path: Path) -> NDArray[np.uint8]:
    """Tiles, row by row, as images [n, 3, 32, 32]."""
    from PIL import Image

    try:
        with Image.open(io.BytesIO(read_bytes(path))) as picture:
            sheet = np.asarray(picture.convert("RGB"))
    except (OSError, ValueError, Image.DecompressionBombError) as error:
        raise DataError(f"{path}: cannot be decoded: {error}") from error
    height, width, _ = sheet.shape
    if height % SIDE or width % SIDE:
        raise DataError(f"{path}: {width}x{height} pixels; legal: multiples of {SIDE}")
    tiles = sheet.reshape(height // SIDE, SIDE, width // SIDE, SIDE, 3)
    return tiles.transpose(0, 2, 4, 1, 3).reshape(-1, 3, SIDE, SIDE)


def _further_sheets(name: str, root: Path | None) -> list[Path]:
    numbered = (look_for(root, name, f"data_batch_{number}.webp") for number in itertools.count(2))
    return [path for path in itertools.takewhile(lambda path: path is not None, numbered) if path is not None]


def _join(sheets: list[Path], labels: Path, y: NDArray[Any], classes: int) -> Samples:
    x = np.concatenate([read_sheet(path) for path in sheets])
    if len(x) != len(y):
        names = ", ".join(path.name for path in sheets)
        raise DataError(f"{labels}: {len(y)} labels for the {len(x)} images of {names}; legal: as many")
    check_labels(labels, y, classes)
    return to_samples(x, y)
