"""What a file may hold; more is refused before memory is spent on it."""

from __future__ import annotations

import numpy as np

MAX_BYTES = 4 << 30  # unpacked content of one data set

MAX_TEXT_BYTES = 2 << 30
MAX_LINE = 16 << 20  # characters
MAX_COLUMNS = 10_000
MAX_CELLS = 50_000_000
MAX_CATEGORIES = 1_000
MAX_WORD = 256  # characters of a label or a client's name
MAX_CLASSES = 10_000
MAX_NUMBER = float(np.finfo(np.float32).max)

MAX_MEMBERS = 64  # arrays of an npz
MAX_NPY_HEADER = 4_096
MAX_DIMENSIONS = 6

MAX_FILES = 1_000_000
MAX_PIXELS = 1 << 24  # of one image
MAX_IMAGE_BYTES = 64 << 20

MAX_PACK_HEADER = 16 << 20
