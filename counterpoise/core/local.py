"""How a client trains: learning rate and its schedule over rounds, batches, and the plain optimizer's extras."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from typing import Annotated, Literal, TypeAlias

from counterpoise.core.method import build_named
from counterpoise.core.part import first_round
from counterpoise.core.rounds import counted
from counterpoise.errors import ConfigError
from counterpoise.registry.registry import Registry
from counterpoise.registry.schema import (
    LARGEST,
    Interval,
    Moment,
    Named,
    NonNegative,
    Positive,
    ProperFraction,
)
from counterpoise.registry.settings import Settings

Schedule: TypeAlias = Callable[[float, int, int], float]  # first rate, round, rounds -> rate of that round
Batching: TypeAlias = Literal["auto", "pad", "wrap", "drop"]  # how the last short batch is handled
Optimizer: TypeAlias = Literal["sgd", "adam", "adamw"]
LARGEST_BATCH, MOST_EPOCHS = 1 << 20, 10_000

SCHEDULES: Registry[Schedule] = Registry("schedule", largest=LARGEST)
schedule = SCHEDULES.register


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
def steps(at: list[Moment], by: Positive = 0.1) -> Schedule:
    """``lr * by ** (number of boundaries in `at` that the round has reached)``; below 1 a boundary is a share of all rounds."""
    return lambda lr, round, rounds: lr * by ** sum(round >= first_round(boundary, rounds) for boundary in at)


def read_schedule(given: Schedule | Named) -> Schedule:
    """A schedule as it is, or by its name as a config writes it."""
    if isinstance(given, str | Mapping):
        found: Schedule = build_named(SCHEDULES, given)
        return found
    return given


@dataclass(frozen=True)
class Local(Settings, table="local"):
    """How a client trains; the same for every method."""

    lr: Annotated[NonNegative, "learning rate of the first round; 0 leaves the model as it is"] = 0.1
    batch_size: Annotated[int, Interval(1, LARGEST_BATCH), "samples per step"] = 32
    epochs: Annotated[int, Interval(1, MOST_EPOCHS), "passes over its data per client per round"] = 1
    momentum: Annotated[ProperFraction, "momentum of the local steps, from 0 in each round"] = 0.0
    weight_decay: Annotated[NonNegative, "strength of the weight decay"] = 0.0
    decoupled: Annotated[bool, "weight decay outside the method's rule and the momentum"] = False
    clip: Annotated[Positive | None, "largest norm of a gradient; by default none"] = None
    batching: Annotated[
        Batching,
        "the last short batch: padded, filled from the next order, or dropped; auto: wrap with BatchNorm, else pad",
    ] = "auto"
    schedule: Annotated[Schedule | Named, "learning rate over rounds: constant, factor, cosine, steps"] = (
        "constant"
    )
    # None, not a value: a run that began before there were optimizers can still be resumed.
    optimizer: Annotated[
        Optimizer | None,
        "rule of the local steps: sgd, adam (weight decay in the gradient) or adamw (weight decay outside it), whose means begin anew in each round; by default sgd",
    ] = None
    beta1: Annotated[
        ProperFraction | None, "adam, adamw: share of the mean gradient kept; by default 0.9"
    ] = None
    beta2: Annotated[
        ProperFraction | None, "adam, adamw: share of the mean square kept; by default 0.999"
    ] = None
    eps: Annotated[Positive | None, "adam, adamw: added to the root of the mean square; by default 1e-8"] = (
        None
    )

    def __post_init__(self) -> None:
        super().__post_init__()
        read_schedule(self.schedule)  # an unknown name is refused here, not in the first round
        self._check_optimizer()

    @property
    def adaptive(self) -> bool:
        """Whether steps are Adam's: scaled for each parameter."""
        return self.optimizer in ("adam", "adamw")

    def _check_optimizer(self) -> None:
        """A setting that the optimizer does not read is refused: it would silently do nothing."""
        rule = self.optimizer or "sgd"
        if self.adaptive and self.momentum:
            raise ConfigError(
                f"local.momentum is for 'sgd', not for local.optimizer = {rule!r}, which has beta1; leave one of them out"
            )
        if rule == "adam" and self.decoupled:
            raise ConfigError("local.decoupled does not go with local.optimizer = 'adam'; use 'adamw'")
        for key in ("beta1", "beta2", "eps"):
            if not self.adaptive and getattr(self, key) is not None:
                raise ConfigError(f"local.{key} is for local.optimizer = 'adam' or 'adamw', not for {rule!r}")

    def resolve_batching(self, mixes: bool) -> Local:
        """The settings with `auto` batching resolved for a model; padding would enter what goes by the whole batch."""
        if mixes and self.batching == "pad":
            raise ConfigError(
                "local.batching must be 'auto', 'wrap' or 'drop' with layers that mix the samples of a batch, such as BatchNorm, not 'pad': padding would enter them"
            )
        if self.batching != "auto":
            return self
        return replace(self, batching="wrap" if mixes else "pad")

    def rate(self, round: int, rounds: int) -> float:
        try:
            return read_schedule(self.schedule)(self.lr, round, rounds)
        except OverflowError:
            raise ConfigError(
                f"local.schedule: the learning rate overflows in round {counted(round)} of {rounds}"
            ) from None
