"""Tiny ImageNet and ImageNet-LT: image files with a list of "path label" lines, decoded to one size."""

from __future__ import annotations

from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path, PurePosixPath
from typing import Annotated, NamedTuple

import numpy as np
from numpy.typing import NDArray

from counterpoise.data.dataset import Dataset, Loader, Samples, Scaling, dataset, pixel_scaling
from counterpoise.data.root import find_file, look_for
from counterpoise.data.sets.assemble import check_labels, checksums, to_samples
from counterpoise.data.tables.delimited import read_lines
from counterpoise.errors import DataError
from counterpoise.registry.schema import Interval

Side = Annotated[int, Interval(8, 1024)]


class Listing(NamedTuple):
    """Image files and their labels."""

    source: Path  # the list, for errors
    files: list[Path]
    labels: NDArray[np.int64]


@dataset("tiny_imagenet", paper="Le and Yang, Tiny ImageNet Visual Recognition Challenge, 2015")
def tiny_imagenet(size: Side = 64) -> Loader:
    """100,000 + 10,000 colour images in 200 classes, from train.txt and val.txt or the official folders.

    A list has a line "path label" for each image, with paths from the set's folder; the validation images test.
    """

    def load(root: Path | None) -> Dataset:
        wnids = look_for(root, "tiny_imagenet", "wnids.txt")
        if wnids is not None and look_for(root, "tiny_imagenet", "train.txt") is None:
            listings, classes = _official(wnids), tuple(read_lines(wnids))
        else:
            listings = [
                read_list(find_file(root, "tiny_imagenet", file)) for file in ("train.txt", "val.txt")
            ]
            classes = _numbered(listings)
        scaling = pixel_scaling((0.4802, 0.4481, 0.3975), (0.2770, 0.2691, 0.2821))
        return _dataset("tiny_imagenet", listings, classes, scaling, size)

    return load


@dataset("imagenet_lt", paper="Liu et al., Large-Scale Long-Tailed Recognition in an Open World, CVPR 2019")
def imagenet_lt(size: Side = 64) -> Loader:
    """115,846 + 50,000 colour images in 1,000 classes, 1,280 to 5 per class, from the official lists.

    All images are held in memory: 3 size^2 bytes each, 2 GB at 64, 25 GB at 224.
    """

    def load(root: Path | None) -> Dataset:
        files = ("ImageNet_LT_train.txt", "ImageNet_LT_test.txt")
        listings = [read_list(find_file(root, "imagenet_lt", file)) for file in files]
        scaling = pixel_scaling((0.485, 0.456, 0.406), (0.229, 0.224, 0.225))
        return _dataset("imagenet_lt", listings, _numbered(listings), scaling, size)

    return load


def read_list(path: Path) -> Listing:
    """Lines "path label"; a path is relative to the list's folder and must stay inside it."""
    files, labels = [], []
    for number, line in enumerate(read_lines(path), start=1):
        name, _, label = line.strip().rpartition(" ")
        place = PurePosixPath(name)
        if not name or not label.isdecimal() or place.is_absolute() or ".." in place.parts:
            raise DataError(
                f"{path}: line {number} is {line[:60]!r}; needs a path below {path.parent} and a label from 0"
            )
        files.append(path.parent / place)
        labels.append(int(label))
    if not files:
        raise DataError(f"{path}: no images; needs a line 'path label' for each")
    return Listing(path, files, np.array(labels, dtype=np.int64))


def decode_images(files: Sequence[Path], size: int) -> NDArray[np.uint8]:
    """Images [n, 3, size, size]: the largest centred square of each, resized."""
    images = np.empty((len(files), 3, size, size), np.uint8)

    def decode(place: int) -> None:
        images[place] = _decode(files[place], size)

    with ThreadPoolExecutor() as pool:
        list(pool.map(decode, range(len(files))))  # a list, so that an error in a thread is raised here
    return images


def _decode(file: Path, size: int) -> NDArray[np.uint8]:
    from PIL import Image, ImageOps

    try:
        with Image.open(file) as picture:
            square = ImageOps.fit(picture.convert("RGB"), (size, size), Image.Resampling.BILINEAR)
    except (OSError, ValueError, SyntaxError, Image.DecompressionBombError) as error:
        raise DataError(f"{file}: cannot be decoded: {error}") from error
    return np.asarray(square).transpose(2, 0, 1)


def _dataset(
    name: str, listings: list[Listing], classes: tuple[str, ...], scaling: Scaling, size: int
) -> Dataset:
    for listing in listings:
        check_labels(listing.source, listing.labels, len(classes))
    train, test = (_samples(listing, size) for listing in listings)
    note = f"the largest centred square of each image, resampled to {size}x{size}"
    files = checksums(listing.source for listing in listings)
    return Dataset(name, train, test, classes, scaling, files=files, notes=(note,))


def _samples(listing: Listing, size: int) -> Samples:
    return to_samples(decode_images(listing.files, size), listing.labels)


def _numbered(listings: list[Listing]) -> tuple[str, ...]:
    return tuple(str(label) for label in range(int(listings[0].labels.max()) + 1))


def _official(wnids: Path) -> list[Listing]:
    """Tiny ImageNet as unpacked: train/WNID/images/*.JPEG, and val/images with val/val_annotations.txt."""
    classes = {wnid: label for label, wnid in enumerate(read_lines(wnids))}
    folder = wnids.parent
    train = [
        (file, label)
        for wnid, label in classes.items()
        for file in sorted(folder.glob(f"train/{wnid}/images/*.JPEG"))
    ]
    annotations = find_file(folder.parent, folder.name, "val/val_annotations.txt")
    val = [_annotated(annotations, line, classes) for line in read_lines(annotations)]
    return [_listing(wnids, train), _listing(annotations, val)]


def _annotated(annotations: Path, line: str, classes: dict[str, int]) -> tuple[Path, int]:
    name, _, rest = line.partition("\t")
    wnid = rest.partition("\t")[0]
    if wnid not in classes or "/" in name:
        raise DataError(f"{annotations}: {line[:60]!r}; needs a file name, a tab and a name of wnids.txt")
    return annotations.parent / "images" / name, classes[wnid]


def _listing(source: Path, pairs: list[tuple[Path, int]]) -> Listing:
    if not pairs:
        raise DataError(f"{source}: no image found for it; needs the folders as the official archive unpacks")
    return Listing(
        source, [file for file, _ in pairs], np.array([label for _, label in pairs], dtype=np.int64)
    )
