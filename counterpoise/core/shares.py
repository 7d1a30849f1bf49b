"""Whole numbers from shares, as they are on paper and not as floats have them."""

from __future__ import annotations

import math

SLACK = 1e-12  # a product that is whole may be short of it by its last bits


def floor_share(share: float, count: int) -> int:
    """``floor(share count)``, with a slack: in floats 0.29 * 100 is below 29."""
    return math.floor(share * count * (1 + SLACK))
