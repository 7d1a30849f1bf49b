"""Image folders that are wrong: how each is made and what is said of it."""

from __future__ import annotations

import struct
import zlib
from collections.abc import Callable
from pathlib import Path

import numpy as np
from PIL import Image


def paint(path: Path, size: tuple[int, int] = (4, 4)) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    Image.new("L", size, 7).save(path)


def paint_classes(folder: Path, labels: str = "pq") -> None:
    for label in labels:
        for number in range(3):
            paint(folder / label / f"{number}.png")


def png_of_size(width: int, height: int) -> bytes:
    """A PNG that claims a size and holds no pixels."""

    def chunk(kind: bytes, content: bytes) -> bytes:
        return (
            struct.pack(">I", len(content)) + kind + content + struct.pack(">I", zlib.crc32(kind + content))
        )

    return (
        b"\x89PNG\r\n\x1a\n"
        + chunk(b"IHDR", struct.pack(">IIBBBBB", width, height, 8, 0, 0, 0, 0))
        + chunk(b"IEND", b"")
    )


def with_file(content: bytes) -> Callable[[Path], None]:
    def make(folder: Path) -> None:
        paint_classes(folder)
        (folder / "q" / "odd.png").write_bytes(content)

    return make


def cut_image(folder: Path) -> None:
    paint_classes(folder)
    noise = np.random.default_rng(0).integers(0, 256, (64, 64), dtype=np.uint8)
    Image.fromarray(noise).save(folder / "q" / "whole.png")
    content = (folder / "q" / "whole.png").read_bytes()
    (folder / "q" / "whole.png").unlink()
    (folder / "q" / "odd.png").write_bytes(content[: len(content) // 2])


def another_size(folder: Path) -> None:
    paint_classes(folder)
    paint(folder / "q" / "odd.png", (5, 6))


def sixteen_bits(folder: Path) -> None:
    paint_classes(folder)
    Image.fromarray(np.full((4, 4), 40_000, np.uint16)).save(folder / "q" / "odd.png")


def link_out(folder: Path) -> None:
    paint_classes(folder)
    outside = folder.parent / "secret.png"
    paint(outside)
    (folder / "q" / "odd.png").symlink_to(outside)


def folder_link_out(folder: Path) -> None:
    paint_classes(folder)
    paint(folder.parent / "elsewhere" / "0.png")
    (folder / "odd").symlink_to(folder.parent / "elsewhere")


def broken_link(folder: Path) -> None:
    paint_classes(folder)
    (folder / "q" / "odd.png").symlink_to(folder / "q" / "nothing.png")


def endless_link(folder: Path) -> None:
    paint_classes(folder)
    (folder / "q" / "odd.png").symlink_to(folder / "q" / "odd.png")


def nested(folder: Path) -> None:
    paint_classes(folder / "odd")
    paint_classes(folder / "site")


def empty_class(folder: Path) -> None:
    paint_classes(folder)
    (folder / "odd").mkdir()


def no_folders(folder: Path) -> None:
    paint(folder / "0.png")


def test_only(folder: Path) -> None:
    paint_classes(folder / "train")
    paint_classes(folder / "test", "pqr")


FOLDERS: dict[str, tuple[Callable[[Path], None], str]] = {
    "text for an image": (with_file(b"not an image"), "odd.png: cannot be read as an image"),
    "empty image": (with_file(b""), "odd.png: is empty"),
    "image cut short": (cut_image, "odd.png: cannot be read as an image"),
    "image of 2.5 billion pixels": (
        with_file(png_of_size(50_000, 50_000)),
        "odd.png: cannot be read as an image",
    ),
    "image of 100 million pixels": (
        with_file(png_of_size(10_000, 10_000)),
        "odd.png: cannot be read as an image",
    ),
    "image of 25 million pixels": (with_file(png_of_size(5_000, 5_000)), "odd.png: is 5000 x 5000; at most"),
    "another size": (another_size, "odd.png: is 6 x 5, the first image 4 x 4; needs one size"),
    "sixteen bits": (sixteen_bits, None),
    "link out of the folder": (link_out, "odd.png: is a link that leads out"),
    "folder that is a link": (folder_link_out, "odd: is a link that leads out"),
    "endless link": (endless_link, "odd.png"),
    "broken link": (broken_link, "odd.png: no such file"),
    "one folder too deep": (
        nested,
        "odd: holds a folder, not images; needs class/file, or client/class/file with `clients`",
    ),
    "class without images": (empty_class, "odd: holds no images"),
    "no folders": (no_folders, "images: holds no folders"),
    "nothing": (lambda folder: folder.mkdir(), "images: holds no folders"),
    "one class": (lambda folder: paint_classes(folder, "p"), "images: holds 1 class;"),
    "class of the test only": (test_only, "images: class 'r' has test samples only"),
}
