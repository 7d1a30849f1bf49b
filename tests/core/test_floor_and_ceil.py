"""Whole numbers from shares: as on paper, whatever floats make of the product."""

from __future__ import annotations

import math
from fractions import Fraction

from hypothesis import given
from hypothesis import strategies as st

from counterpoise.core.shares import ceil_share, floor_share


def test_products_that_floats_miss() -> None:
    assert 0.29 * 100 < 29
    assert 0.55 * 100 > 55
    assert (floor_share(0.29, 100), ceil_share(0.29, 100)) == (29, 29)
    assert (floor_share(0.55, 100), ceil_share(0.55, 100)) == (55, 55)
    assert (floor_share(1 / 3, 300), ceil_share(1 / 3, 300)) == (100, 100)
    assert (floor_share(0.5, 5), ceil_share(0.5, 5)) == (2, 3)


@given(st.integers(0, 10_000), st.integers(0, 1_000_000))
def test_they_are_those_of_the_written_decimal(parts: int, count: int) -> None:
    share = parts / 10_000
    exact = Fraction(parts, 10_000) * count
    assert (floor_share(share, count), ceil_share(share, count)) == (math.floor(exact), math.ceil(exact))
