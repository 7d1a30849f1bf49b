"""Races that are short: one rate, one seed before the finals, few in them."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from counterpoise.advice import advise, plan
from counterpoise.sweep import execute


@pytest.fixture(scope="module")
def short_races() -> Iterator[None]:
    """As with little time, but the same on every machine."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(advise, "RATES", 1)
        patch.setattr(plan, "SEEDS", 1)
        patch.setattr(plan, "MOST_SEEDS", 3)
        execute._load.cache_clear()
        yield
