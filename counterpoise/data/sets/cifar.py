"""CIFAR-10 and CIFAR-100 from the official binary files, or from lossless WebP sheets of 32x32 tiles; never from pickles."""

from __future__ import annotations

import io
import itertools
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from counterpoise.data.dataset import Dataset, Loader, Samples, Scaling, dataset, pixel_scaling
from counterpoise.data.root import data_root, find_file, look_for, read_bytes, read_npz
from counterpoise.data.sets.assemble import check_labels, checksums, to_samples
from counterpoise.data.tables.delimited import read_lines
from counterpoise.errors import DataError

SIDE = 32
KRIZHEVSKY = "Krizhevsky, Learning Multiple Layers of Features from Tiny Images, 2009"
PIXELS = 3 * SIDE * SIDE
TRAINING = 50_000  # images of either set, as many of each class
MOST_BYTES = 60_000 * (2 + PIXELS)  # all images of either set in one file
Pixels = NDArray[np.uint8]


class Binary(NamedTuple):
    """How the two binary versions differ."""

    name: str
    folder: str  # as the official archive unpacks
    train: tuple[str, ...]
    test: str
    label_bytes: int  # the last one counts: CIFAR-100 puts the coarse label first
    classes: int
    mean: tuple[float, ...]
    std: tuple[float, ...]


CIFAR10 = Binary(
    "cifar10",
    "cifar-10-batches-bin",
    tuple(f"data_batch_{k}.bin" for k in range(1, 6)),
    "test_batch.bin",
    label_bytes=1,
    classes=10,
    mean=(0.4914, 0.4822, 0.4465),
    std=(0.2470, 0.2435, 0.2616),
)
CIFAR100 = Binary(
    "cifar100",
    "cifar-100-binary",
    ("train.bin",),
    "test.bin",
    label_bytes=2,
    classes=100,
    mean=(0.5071, 0.4865, 0.4409),
    std=(0.2673, 0.2564, 0.2762),
)
CIFAR10_CLASSES = ("airplane", "automobile", "bird", "cat", "deer", "dog", "frog", "horse", "ship", "truck")


@dataset("cifar10", paper=KRIZHEVSKY)
def cifar10() -> Loader:
    """50,000 + 10,000 colour 32x32 images in 10 classes, from data_batch_1.bin to 5 and test_batch.bin, or from sheets."""
    return lambda root: _load(CIFAR10, root)


@dataset("cifar100", paper=KRIZHEVSKY)
def cifar100() -> Loader:
    """50,000 + 10,000 colour 32x32 images in 100 fine classes, from train.bin and test.bin, or from sheets."""
    return lambda root: _load(CIFAR100, root)


def _load(layout: Binary, root: Path | None) -> Dataset:
    return _told(layout, _found(layout, root))


def _told(layout: Binary, data: Dataset) -> Dataset:
    """With a note where the files hold only part of the official set."""
    whole = (TRAINING // layout.classes,) * layout.classes
    here = np.bincount(data.train.y.numpy(), minlength=layout.classes)
    if tuple(here.tolist()) == whole:
        return data
    note = (
        f"only part of the official {layout.name}: {len(data.train.y):,} of {TRAINING:,} training samples, "
        f"{here.min():,} to {here.max():,} of each class; imbalances that need more are refused"
    )
    return replace(data, official=whole, notes=(*data.notes, note))


def _found(layout: Binary, root: Path | None) -> Dataset:
    if look_for(root, layout.name, *_places(layout, layout.test)) is None:
        if look_for(root, layout.name, "labels.npz") is not None:
            return load_sheets(layout.name, root, layout.classes, pixel_scaling(layout.mean, layout.std))
        _refuse_pickles(layout, data_root(root) / layout.name)
    return _load_binary(layout, root)


def _load_binary(layout: Binary, root: Path | None) -> Dataset:
    *train, test = (
        find_file(root, layout.name, *_places(layout, file)) for file in (*layout.train, layout.test)
    )
    return Dataset(
        layout.name,
        train=to_samples(*read_binary(train, layout.label_bytes, layout.classes)),
        test=to_samples(*read_binary([test], layout.label_bytes, layout.classes)),
        classes=_class_names(layout, root),
        scaling=pixel_scaling(layout.mean, layout.std),
        files=checksums([*train, test]),
    )


def read_binary(paths: Sequence[Path], label_bytes: int, classes: int) -> tuple[Pixels, Pixels]:
    """Records of one or two label bytes and 3,072 pixels, plane by plane: images [n, 3, 32, 32] and labels."""
    batches = [_read_batch(path, label_bytes, classes) for path in paths]
    return np.concatenate([x for x, _ in batches]), np.concatenate([y for _, y in batches])


def _read_batch(path: Path, label_bytes: int, classes: int) -> tuple[Pixels, Pixels]:
    content = np.frombuffer(read_bytes(path, MOST_BYTES), np.uint8)
    record = label_bytes + PIXELS
    if len(content) == 0 or len(content) % record:
        raise DataError(
            f"{path}: {len(content):,} bytes; needs a whole number of records of {record:,} bytes"
        )
    rows = content.reshape(-1, record)
    labels = rows[:, label_bytes - 1]
    check_labels(path, labels, classes)
    return rows[:, label_bytes:].reshape(-1, 3, SIDE, SIDE), labels


def _places(layout: Binary, file: str) -> tuple[str, str]:
    return file, f"{layout.folder}/{file}"


def _class_names(layout: Binary, root: Path | None) -> tuple[str, ...]:
    if layout.classes == len(CIFAR10_CLASSES):
        return CIFAR10_CLASSES
    names = look_for(root, layout.name, *_places(layout, "fine_label_names.txt"))
    if names is None:
        return tuple(str(label) for label in range(layout.classes))
    lines = tuple(read_lines(names))
    if len(lines) != layout.classes:
        raise DataError(f"{names}: {len(lines)} names; needs {layout.classes}")
    return lines


def _refuse_pickles(layout: Binary, folder: Path) -> None:
    folders = ("cifar-10-batches-py", "cifar-100-python")
    pickled = ("data_batch_1", "train", *folders, "cifar-10-python.tar.gz", "cifar-100-python.tar.gz")
    found = next((folder / name for name in pickled if (folder / name).exists()), None)
    if found is not None:
        raise DataError(
            f"{found}: the pickled Python version of {layout.name}, which is never read, since unpickling can run code; "
            f"put the binary version ({', '.join((*layout.train, layout.test))}) in {folder}"
        )


def load_sheets(name: str, root: Path | None, classes: int, scaling: Scaling) -> Dataset:
    """data_batch_1.webp and on for training, test_batch.webp, and labels.npz with train, test and classes."""
    labels = find_file(root, name, "labels.npz")
    arrays = read_npz(labels, "train", "test", "classes")
    if len(arrays["classes"]) != classes:
        raise DataError(f"{labels}: {len(arrays['classes'])} classes; needs {classes}")
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
        raise DataError(f"{path}: {width}x{height} pixels; needs multiples of {SIDE}")
    tiles = sheet.reshape(height // SIDE, SIDE, width // SIDE, SIDE, 3)
    return tiles.transpose(0, 2, 4, 1, 3).reshape(-1, 3, SIDE, SIDE)


def _further_sheets(name: str, root: Path | None) -> list[Path]:
    numbered = (look_for(root, name, f"data_batch_{number}.webp") for number in itertools.count(2))
    return [path for path in itertools.takewhile(lambda path: path is not None, numbered) if path is not None]


def _join(sheets: list[Path], labels: Path, y: NDArray[Any], classes: int) -> Samples:
    x = np.concatenate([read_sheet(path) for path in sheets])
    if len(x) != len(y):
        names = ", ".join(path.name for path in sheets)
        raise DataError(f"{labels}: {len(y)} labels for the {len(x)} images of {names}; needs as many")
    check_labels(labels, y, classes)
    return to_samples(x, y)
