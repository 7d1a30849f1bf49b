"""Randomness that only the holder of a key can work out: streams of cryptographic hashes, named by paths as those of `rng`."""

from __future__ import annotations

import hashlib
import math
import secrets
from collections.abc import Sequence

import numpy as np
import torch
from torch import Tensor

from counterpoise.core.rng import Key, name_of
from counterpoise.errors import DataError

KEY_BYTES = 32
BITS = 52  # of a uniform number: with half a step added it is exact in float64, and never 0 or 1


class SecretKey:
    """256 bits that are never shown; further keys derive from it, each for a purpose and a path of its own."""

    __slots__ = ("_content",)

    def __init__(self, content: bytes) -> None:
        if len(content) != KEY_BYTES:
            raise DataError(f"a secret key must have {KEY_BYTES} bytes, not {len(content)}")
        self._content = content

    @classmethod
    def new(cls) -> SecretKey:
        """Drawn by the operating system."""
        return cls(secrets.token_bytes(KEY_BYTES))

    @classmethod
    def of_seed(cls, seed: int) -> SecretKey:
        """For runs that are repeated: no secret to anybody who knows the seed."""
        return cls(hashlib.blake2b(name_of(seed, "known key").encode(), digest_size=KEY_BYTES).digest())

    def derive(self, purpose: str, *path: Key) -> SecretKey:
        """The key of this path, which tells nothing of this key or of those of other paths."""
        text = name_of(purpose, *path).encode()
        return SecretKey(hashlib.blake2b(text, key=self._content, digest_size=KEY_BYTES).digest())

    def seed(self) -> int:
        """As the seed of an ordinary stream."""
        return int.from_bytes(self._content, "big")

    def gaussian(self, shape: Sequence[int]) -> Tensor:
        """Standard normal numbers in float64, the same whenever they are asked for: SHAKE-256 of the key, by Box and Muller."""
        count = math.prod(shape)
        pairs = (count + 1) // 2
        words = np.frombuffer(hashlib.shake_256(self._content).digest(16 * pairs), dtype="<u8")
        uniform = ((words >> np.uint64(64 - BITS)) + 0.5) * 2.0**-BITS
        radius, angle = np.sqrt(-2 * np.log(uniform[:pairs])), 2 * np.pi * uniform[pairs:]
        drawn = np.concatenate([radius * np.cos(angle), radius * np.sin(angle)])
        return torch.from_numpy(drawn[:count]).reshape(tuple(shape))

    def to_bytes(self) -> bytes:
        """For the one file that keeps it."""
        return self._content

    def __repr__(self) -> str:
        return "SecretKey(not shown)"
