"""Whole numbers from shares, as they are on paper and not as floats have them."""

from __future__ import annotations

import math

SLACK = 1e-12  # a product that is whole may miss it by its last bits


def floor_share(share: float, count: int) -> int:
    """``floor(share count)``, with a slack: in floats 0.29 * 100 is below 29."""
    return math.floor(share * count * (1 + SLACK))


def ceil_share(share: float, count: int) -> int:
    """``ceil(share count)``, with the same slack: in floats 0.55 * 100 is above 55."""
    return math.ceil(share * count * (1 - SLACK))
