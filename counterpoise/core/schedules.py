"""Learning-rate schedules over rounds; the rate is constant inside a round."""

from __future__ import annotations

import math
from typing import Annotated

from counterpoise.core.local import Schedule, schedule
from counterpoise.registry.schema import Count, Interval, NonNegative, Positive


@schedule("constant")
def constant() -> Schedule:
    """``lr`` in every round."""
    return lambda lr, round, rounds: lr


@schedule("factor")
def factor(by: Annotated[float, Interval(0, 1, open_low=True)] = 0.998) -> Schedule:
    """``lr * by ** round``."""
    return lambda lr, round, rounds: lr * by**round


@schedule("cosine")
def cosine(floor: NonNegative = 0.0) -> Schedule:
    """From ``lr`` in the first round along half a cosine to the rate ``floor`` in the last."""

    def at(lr: float, round: int, rounds: int) -> float:
        done = min(round / max(rounds - 1, 1), 1.0)
        return floor + (lr - floor) * (1 + math.cos(math.pi * done)) / 2

    return at


@schedule("steps")
def steps(at: list[Count], by: Positive = 0.1) -> Schedule:
    """``lr * by ** (number of boundaries in `at` that the round has reached)``."""
    return lambda lr, round, rounds: lr * by ** sum(round >= boundary for boundary in at)
