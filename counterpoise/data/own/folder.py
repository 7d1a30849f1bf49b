"""Folders of images, a folder a class, as a data set."""

from __future__ import annotations

import hashlib
import io
import warnings
from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray
from PIL import Image

from counterpoise.data.dataset import Dataset
from counterpoise.data.own.assemble import split_note, split_rows
from counterpoise.data.own.cells import Coded, in_order
from counterpoise.data.own.faults import blamed_on, check_share, fault, file_within
from counterpoise.data.own.limits import MAX_BYTES, MAX_FILES, MAX_IMAGE_BYTES, MAX_PIXELS
from counterpoise.data.own.samples import Checked, join

FORMATS = ("PNG", "JPEG", "BMP", "WEBP", "TIFF", "PPM")
SUFFIXES = frozenset({".png", ".jpg", ".jpeg", ".bmp", ".webp", ".tif", ".tiff", ".ppm", ".pgm"})
GREY = frozenset({"1", "L", "LA"})
COLOUR = frozenset({"P", "RGB", "RGBA", "CMYK", "YCbCr"})
HALVES = ("train", "test")

Pixels = NDArray[np.uint8]
Size = int | tuple[int, int] | None


class Picture(NamedTuple):
    """Where an image lies, and what its folders say of it."""

    path: Path
    label: str
    client: str = ""
