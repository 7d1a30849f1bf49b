"""A threshold on the probability of the positive class: chosen on validation samples, scored on others.

Both work on histograms [bins, 2], of samples of the other class and of the positive one, which add up over clients.
"""

from __future__ import annotations

import bisect
from typing import Literal, NamedTuple, TypeAlias

import torch
from torch import Tensor

from counterpoise.metrics.roc import bin_edge, bins_for, bins_of

EXACT_DIGITS = 12  # further ones are rounding errors, which must not decide between equals
# What the threshold is chosen for on validation samples; a number is the precision that it must reach there.
Goal: TypeAlias = Literal["f1", "balanced_accuracy"] | float


class Called(NamedTuple):
    """Samples called positive from each bin on, beside all samples of both classes."""

    hits: Tensor  # [bins]
    false: Tensor  # [bins]
    own: float
    others: float


class Threshold(NamedTuple):
    """From which bin on a sample is called positive, and the probability at the edge of that bin."""

    bin: int
    chance: float


class Decision(NamedTuple):
    """Which of two classes a sample is called: `positive`, by number, from the probability `chance` on."""

    positive: int
    chance: float

    def codes(self, logits: Tensor) -> Tensor:
        """[n] the answers, by the very bins in which the threshold was chosen and scored."""
        bins = bins_for(2)
        first = bisect.bisect_left(range(bins), self.chance, key=lambda place: bin_edge(place, bins))
        called = bins_of(logits, bins)[:, self.positive] >= first
        return torch.where(called, self.positive, 1 - self.positive)


def choose_threshold(counts: Tensor, goal: Goal) -> Threshold | None:
    """The best threshold for the goal, the highest of equals; for a precision: the one of highest recall that reaches it.

    None where no threshold reaches the precision, or a class has no sample.
    """
    called = _called(counts)
    if not called.own or not called.others:
        return None
    values = _values(called, goal).round(decimals=EXACT_DIGITS)
    values = torch.where(counts.cpu().sum(1) > 0, values, -1.0)  # a bin without samples gives no other answer
    best = len(values) - 1 - int(values.flip(0).argmax())
    return Threshold(best, bin_edge(best, len(values))) if values[best] >= 0 else None


def confusion_at(counts: Tensor, threshold: Threshold) -> Tensor:
    """Counts [2, 2] of true class against answer; the positive class is the second."""
    called = _called(counts)
    hits, false = float(called.hits[threshold.bin]), float(called.false[threshold.bin])
    return torch.tensor([[called.others - false, false], [called.own - hits, hits]], dtype=torch.float64)


def _called(counts: Tensor) -> Called:
    false, hits = counts.cpu().double().flip(0).cumsum(0).flip(0).unbind(1)
    return Called(hits, false, float(hits[0]), float(false[0]))


def _values(called: Called, goal: Goal) -> Tensor:
    """[bins] what is to be as high as possible; -1 where a threshold does not do."""
    hits, false, own, others = called
    if goal == "f1":
        return 2 * hits / (own + hits + false)
    if goal == "balanced_accuracy":
        return (hits / own + 1 - false / others) / 2
    precision = hits / (hits + false).clamp(min=1)
    return torch.where((precision >= float(goal)) & (hits > 0), hits / own, -1.0)
