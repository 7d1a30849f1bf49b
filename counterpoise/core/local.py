"""How a client trains: learning rate and its schedule, batches, and the plain optimizer's extras."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Literal, TypeAlias

from counterpoise.core.registry import Registry

Schedule: TypeAlias = Callable[[float, int, int], float]  # first rate, round, rounds -> rate of that round
Batching: TypeAlias = Literal["pad", "wrap", "drop"]


def _load() -> None:
    import counterpoise.schedules  # noqa: F401


SCHEDULES: Registry[Schedule] = Registry("schedule", _load)
schedule = SCHEDULES.register


def _constant(lr: float, round: int, rounds: int) -> float:
    return lr


@dataclass(frozen=True)
class Local:
    """The local optimizer, the same for every method that is compared."""

    lr: float = 0.1
    batch_size: int = 32
    epochs: int = 1
    momentum: float = 0.0
    weight_decay: float = 0.0
    decoupled: bool = False  # weight decay outside the gradient rule and the momentum
    clip: float | None = None  # largest norm of a gradient
    batching: Batching = "pad"
    schedule: Schedule = field(default=_constant)

    def rate(self, round: int, rounds: int) -> float:
        return self.schedule(self.lr, round, rounds)
