"""How the allocator of a process of ours treats freed memory."""

from __future__ import annotations

import ctypes

MMAP_THRESHOLD, TRIM_THRESHOLD = -3, -1  # glibc's names of its settings
KEEP = 1 << 30  # bytes that are kept instead of returning pages after each step
MOST = 32 << 20  # the largest threshold that older versions of glibc take


def keep_memory() -> None:
    """Keep freed memory: by default the same pages are returned to the system and zeroed again in every step."""
    mallopt = getattr(ctypes.CDLL(None), "mallopt", None)
    if mallopt is not None:
        if not mallopt(MMAP_THRESHOLD, KEEP):
            mallopt(MMAP_THRESHOLD, MOST)
        mallopt(TRIM_THRESHOLD, KEEP)
