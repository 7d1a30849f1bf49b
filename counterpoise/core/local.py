"""How a client trains: learning rate and its schedule, batches, and the plain optimizer's extras."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from typing import Annotated, Any, Literal, TypeAlias

from counterpoise.core.method import build_named
from counterpoise.errors import ConfigError
from counterpoise.registry.arguments import check_arguments
from counterpoise.registry.registry import LARGEST, Interval, NonNegative, Positive, ProperFraction, Registry

Schedule: TypeAlias = Callable[[float, int, int], float]  # first rate, round, rounds -> rate of that round
Batching: TypeAlias = Literal["auto", "pad", "wrap", "drop"]  # of the last short batch
LARGEST_BATCH, MOST_EPOCHS = 1 << 20, 10_000


SCHEDULES: Registry[Schedule] = Registry("schedule", ["counterpoise.core.schedules"], LARGEST)
schedule = SCHEDULES.register


def read_schedule(given: Schedule | str | Mapping[str, Any]) -> Schedule:
    """A schedule as it is, or by its name as a config writes it."""
    if isinstance(given, str | Mapping):
        found: Schedule = build_named(SCHEDULES, given)
        return found
    return given


@dataclass(frozen=True)
class Local:
    """The local optimizer, the same for every method that is compared."""

    lr: NonNegative = 0.1  # 0 leaves the model as it is, to look at what else a round does
    batch_size: Annotated[int, Interval(1, LARGEST_BATCH)] = 32
    epochs: Annotated[int, Interval(1, MOST_EPOCHS)] = 1
    momentum: ProperFraction = 0.0
    weight_decay: NonNegative = 0.0
    decoupled: bool = False  # weight decay outside the gradient rule and the momentum
    clip: Positive | None = None  # largest norm of a gradient
    batching: Batching = "auto"  # wrap with BatchNorm, else pad
    schedule: Schedule | str | Mapping[str, Any] = "constant"  # or { name = { argument = value } }

    def __post_init__(self) -> None:
        checked = check_arguments("local", type(self), **vars(self))
        for name, value in zip(vars(self).copy(), checked, strict=True):
            object.__setattr__(self, name, value)
        read_schedule(self.schedule)  # a wrong name is told here, not in the first round

    def settle_batching(self, has_batch_norm: bool) -> Local:
        """The settings with the batching of a model chosen; padding would enter BatchNorm's statistics."""
        if has_batch_norm and self.batching == "pad":
            raise ConfigError(
                "local.batching = 'pad' would mix padding into BatchNorm's statistics; legal with this model: 'auto', 'wrap', 'drop'"
            )
        if self.batching != "auto":
            return self
        return replace(self, batching="wrap" if has_batch_norm else "pad")

    def rate(self, round: int, rounds: int) -> float:
        try:
            return read_schedule(self.schedule)(self.lr, round, rounds)
        except OverflowError:
            raise ConfigError(
                f"local.schedule gives a rate beyond all numbers in round {round} of {rounds}"
            ) from None
