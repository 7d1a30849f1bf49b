"""Folders of images, one per class, as a data set."""

from __future__ import annotations

import hashlib
import warnings
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import NamedTuple

import numpy as np
from PIL import Image

from counterpoise.data.dataset import Dataset
from counterpoise.data.faults import (
    MAX_BYTES,
    MAX_FILES,
    MAX_IMAGE_BYTES,
    MAX_PIXELS,
    as_fault,
    check_share,
    fault,
    file_within,
    no_such,
)
from counterpoise.data.folds import Fold, draw_test, refuse_fold
from counterpoise.data.own.decode import Decoded, Pixels, Size, decode, depth_note
from counterpoise.data.own.samples import Checked, by_words, join
from counterpoise.data.split import split_at
from counterpoise.data.tables.cells import coded
from counterpoise.data.tables.skipped import OnError, skipped_note
from counterpoise.errors import ConfigError, DataError

HALVES = ("train", "test")
IGNORED_FILES = frozenset({"Thumbs.db", "desktop.ini"})


class Picture(NamedTuple):
    """An image file with the label and client that its folders name."""

    path: Path
    label: str
    client: str = ""


class Read(NamedTuple):
    """Pixels [n, C, H, W] of the images that could be used, and which of the list they are."""

    pixels: Pixels
    digest: str  # SHA-256 over their names and bytes
    kept: list[int]
    notes: tuple[str, ...]


def read_image_folder(
    path: Path | str,
    size: int | Size | None = None,
    clients: bool = False,
    test_share: float = 0.2,
    seed: int = 0,
    on_error: OnError = "stop",
    fold: Fold | None = None,
) -> Dataset:
    """Images at class/file, or with `clients` at client/class/file; split by `train` and `test` folders above, or at random.

    Pixels are bytes [C, H, W], grey only if every image is; transparency is dropped. Images of different sizes
    need a `size` (height, width) to be resized to. Hidden files are ignored; any other must be an
    image, or with `on_error` "skip" is left out and listed in a note.
    """
    check_share(test_share)
    wanted = _wanted_size(size)
    root = Path(path).resolve()
    if not root.is_dir():
        raise no_such(path, "folder")
    halves = [root / half for half in HALVES if (root / half).is_dir()]
    given = len(halves) == len(HALVES)
    listed = [list(_pictures(root, folder, clients)) for folder in (halves if given else [root])]
    found = [picture for half in listed for picture in half]
    read = _read(root, found, wanted, on_error)
    pictures, x = [found[place] for place in read.kept], read.pixels
    classes = coded([picture.label for picture in pictures])
    drawn = []
    if given:
        refuse_fold(fold, f"{root} has the folders train and test")
        first = sum(place < len(listed[0]) for place in read.kept)
        split = split_at(first, len(pictures))
    else:
        split, note = draw_test(root, classes.codes, test_share, seed, fold)
        drawn = [note]
    train, test = (Checked(x[rows], classes.codes[rows]) for rows in split)
    if not len(train.y) or not len(test.y):
        raise fault(root, "no image of its train or its test folder can be used")
    owners = coded([pictures[row].client for row in split.train]) if clients else None
    notes = drawn + ([f"images resized to {wanted[0]} x {wanted[1]}"] if wanted else [])
    joined = join(root, train, test, classes.names, owners, (*notes, *read.notes), {root.name: read.digest})
    named = by_words(joined)
    return replace(named, source=named.source._replace(resized=wanted is not None))


def _wanted_size(size: int | Size | None) -> Size | None:
    if size is None:
        return None
    height, width = (size, size) if isinstance(size, int) else size
    if height < 1 or width < 1 or height * width > MAX_PIXELS:
        raise ConfigError(f"size must be a height and width of at most {MAX_PIXELS:,} pixels, not {size!r}")
    return height, width


def read_pictures(
    root: Path, size: Size, channels: int, resized: bool
) -> tuple[list[Path], list[str], Pixels]:
    """Every image at or below a path for a model of this size: files, names of their folders, pixels [n, C, H, W].

    Images of another size are refused, unless all are `resized`.
    """
    files = list(_files(root, root)) if root.is_dir() else [root]
    if not files:
        raise fault(root, "holds no images")
    pixels = _read(
        root if root.is_dir() else root.parent,
        [Picture(file, "") for file in files],
        size if resized else None,
    ).pixels
    if pixels.shape[2:] != size:
        raise fault(
            files[0], f"is {pixels.shape[2]} x {pixels.shape[3]}; the model takes {size[0]} x {size[1]}"
        )
    if pixels.shape[1] > channels:
        raise fault(root, "holds images in colour; the model takes grey ones")
    whole = np.broadcast_to(pixels, (len(pixels), channels, *size))
    return files, [file.parent.name for file in files], whole.copy()  # one that may be written to


def _files(root: Path, folder: Path) -> Iterator[Path]:
    for child in _listed(root, folder):
        if child.is_dir():
            yield from _files(root, child)
        else:
            yield child


def _pictures(root: Path, folder: Path, clients: bool) -> Iterator[Picture]:
    if clients:
        for client in _folders(root, folder):
            yield from (
                picture._replace(client=client.name) for picture in _pictures(root, client, clients=False)
            )
        return
    for label in _folders(root, folder):
        files = _listed(root, label)
        if not files or files[0].is_dir():
            raise fault(
                label,
                f"holds {'a folder, not images' if files else 'no images'}; needs class/file, or client/class/file with `clients`",
            )
        yield from (Picture(file, label.name) for file in files)


def _folders(root: Path, folder: Path) -> list[Path]:
    folders = [child for child in _listed(root, folder) if child.is_dir()]
    if not folders:
        raise fault(folder, "holds no folders; needs one per class, or client/class with `clients`")
    return folders


def _listed(root: Path, folder: Path) -> list[Path]:
    """The sorted content of a folder; links may not lead out of the root."""
    with as_fault(folder, "cannot be listed"):
        children = sorted(child for child in folder.iterdir() if not _is_ignored(child.name))
        for child in children:
            if not child.resolve().is_relative_to(root):
                raise fault(child, f"is a link that leads out of {root.name}")
    return children


def _is_ignored(name: str) -> bool:
    return name.startswith(".") or name in IGNORED_FILES


def _read(root: Path, pictures: list[Picture], size: Size | None, on_error: OnError = "stop") -> Read:
    if len(pictures) > MAX_FILES:
        raise fault(root, f"holds {len(pictures):,} images; at most {MAX_FILES:,}")
    digest = hashlib.sha256()
    images: list[Decoded] = []
    kept: list[int] = []
    skipped: dict[str, str] = {}
    with warnings.catch_warnings():
        warnings.simplefilter("error", Image.DecompressionBombWarning)
        for place, (file, *_) in enumerate(pictures):
            name = file.relative_to(root).as_posix()
            try:
                content, image = _image(file, size, images, len(pictures))
            except DataError as error:
                if on_error == "stop":
                    raise
                skipped[name] = str(error).removeprefix(f"{file}: ")
                continue
            digest.update(f"{name}\0{hashlib.sha256(content).hexdigest()}\n".encode(errors="surrogateescape"))
            images.append(image)
            kept.append(place)
    notes = (*depth_note(images), *skipped_note(root, "images", skipped, len(pictures)))
    channels = max(len(image.pixels) for image in images)
    alike = [np.broadcast_to(image.pixels, (channels, *image.pixels.shape[1:])) for image in images]
    return Read(np.stack(alike), digest.hexdigest(), kept, notes)


def _image(file: Path, size: Size | None, images: list[Decoded], count: int) -> tuple[bytes, Decoded]:
    """The bytes and pixels of a file that fits to the images before it."""
    content = file_within(file, MAX_IMAGE_BYTES).read_bytes()
    image = decode(file, content, size)
    _check_fit(file, image.pixels, images[0].pixels if images else image.pixels, count)
    return content, image


def _check_fit(file: Path, image: Pixels, first: Pixels, count: int) -> None:
    (_, height, width), (_, first_height, first_width) = image.shape, first.shape
    if (height, width) != (first_height, first_width):
        raise fault(
            file,
            f"is {height} x {width}, the first image {first_height} x {first_width}; needs one size, or data.size to bring all to it",
        )
    if 3 * count * height * width > MAX_BYTES:
        raise fault(
            file,
            f"one of {count:,} images of {height} x {width}; at most {MAX_BYTES:,} bytes of pixels",
        )
