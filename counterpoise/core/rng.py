"""Keyed random streams: a path of words and numbers names a stream, so there is no global state and nothing to save.

A stream depends only on its path, never on what was drawn before, in which order clients are visited, how a cohort is
cut into chunks, or which engine runs it.
"""

from __future__ import annotations

import hashlib
import json

import numpy as np
import torch

Key = str | int


def name_of(*path: Key) -> str:
    """The path as text: in JSON, so that no two paths are equal."""
    return json.dumps([key if isinstance(key, str) else int(key) for key in path])


def key_bits(seed: int, purpose: str, *path: Key) -> int:
    """64 bits that belong to this path alone."""
    text = name_of(seed, purpose, *path)
    return int.from_bytes(hashlib.blake2b(text.encode(), digest_size=8).digest(), "big")


def generator(seed: int, purpose: str, *path: Key) -> torch.Generator:
    """A torch stream on the CPU; results are moved to a device, so CPU and GPU runs draw the same numbers."""
    stream = torch.Generator()
    stream.manual_seed(key_bits(seed, purpose, *path))
    return stream


def numpy_generator(seed: int, purpose: str, *path: Key) -> np.random.Generator:
    """A NumPy stream with the same naming."""
    return np.random.Generator(np.random.Philox(key_bits(seed, purpose, *path)))
