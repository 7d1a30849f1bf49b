"""One image file as pixels of eight bits, checked before it is unpacked; deeper ones keep their high byte."""

from __future__ import annotations

import io
from collections.abc import Sequence
from pathlib import Path
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray
from PIL import Image

from counterpoise.data.faults import MAX_PIXELS, as_fault, fault

FORMATS = ("PNG", "JPEG", "BMP", "WEBP", "TIFF", "PPM")
GREY = frozenset({"1", "L", "LA"})
COLOUR = frozenset({"P", "RGB", "RGBA", "CMYK", "YCbCr"})
DEEP = frozenset({"I", "I;16", "I;16L", "I;16B", "I;16N"})  # grey of sixteen bits; "I" where Pillow widens it
DEEPEST = (1 << 16) - 1
FEW_LEVELS = (1 << 13) - 1  # largest value that leaves at most 32 levels of eight bits

Pixels = NDArray[np.uint8]
Size = tuple[int, int]  # height, width


class Decoded(NamedTuple):
    """Pixels [C, H, W], and the largest value before sixteen bits became eight."""

    pixels: Pixels
    deep: int | None = None


def decode(file: Path, content: bytes, size: Size | None) -> Decoded:
    with (
        as_fault(file, "cannot be read as an image"),
        Image.open(io.BytesIO(content), formats=FORMATS) as image,
    ):
        if image.width * image.height > MAX_PIXELS:
            raise fault(file, f"is {image.height} x {image.width}; at most {MAX_PIXELS:,} pixels")
        if image.mode not in GREY | COLOUR | DEEP:
            raise fault(
                file, f"has pixels of mode {image.mode}; needs eight bits per channel, or sixteen of grey"
            )
        deep = None
        if image.mode in DEEP:
            plain, deep = _high_byte(file, image)
        else:
            plain = image.convert("L" if image.mode in GREY else "RGB")
        if size is not None:
            plain = plain.resize(size[::-1], Image.Resampling.BILINEAR)
        return Decoded(np.atleast_3d(np.asarray(plain)).transpose(2, 0, 1), deep)


def depth_note(images: Sequence[Decoded]) -> tuple[str, ...]:
    """A note on images of sixteen bits, and where they use so little of their range that hardly anything is left."""
    peaks = [image.deep for image in images if image.deep is not None]
    if not peaks:
        return ()
    few = "; few grey levels are left: stretch them over all sixteen bits first"
    return (
        f"{len(peaks):,} images of sixteen bits brought to eight by their high byte; largest value {max(peaks):,} of {DEEPEST:,}{few if max(peaks) <= FEW_LEVELS else ''}",
    )


def _high_byte(file: Path, image: Image.Image) -> tuple[Image.Image, int]:
    values = np.asarray(image)
    if values.min() < 0 or values.max() > DEEPEST:
        raise fault(file, f"holds {values.min()} to {values.max()}; needs 0 to {DEEPEST:,}, sixteen bits")
    return Image.fromarray((values.astype(np.int64) >> 8).astype(np.uint8)), int(values.max())
