"""Scores of a confusion matrix; what has no support has no score: None, never 0 or NaN."""

from __future__ import annotations

import math
import statistics
from collections.abc import Iterable, Sequence
from typing import Any, NamedTuple

import torch
from numpy.typing import NDArray
from torch import Tensor

from counterpoise.errors import ConfigError, short

Score = float | None
Counts = Tensor | NDArray[Any] | Sequence[Any]  # of a confusion: [C, C], rows true, columns predicted


class Worst(NamedTuple):
    """The class or client with the lowest score; the first of equals."""

    which: int
    score: float


def per_class_recall(confusion: Counts) -> list[Score]:
    """``hits / support``."""
    return [hits / support if support else None for hits, support, _ in _margins(confusion)]


def per_class_precision(confusion: Counts) -> list[Score]:
    """``hits / predicted``; 0 for a class with support that is never predicted."""
    return [
        (hits / predicted if hits else 0.0) if support else None
        for hits, support, predicted in _margins(confusion)
    ]


def per_class_f1(confusion: Counts) -> list[Score]:
    """``2 hits / (support + predicted)``, the harmonic mean of precision and recall."""
    return [
        2 * hits / (support + predicted) if support else None
        for hits, support, predicted in _margins(confusion)
    ]


def accuracy(confusion: Counts) -> Score:
    margins = _margins(confusion)
    samples = sum(support for _, support, _ in margins)
    return sum(hits for hits, _, _ in margins) / samples if samples else None


def balanced_accuracy(confusion: Counts) -> Score:
    """Mean recall over classes with support."""
    return mean_score(per_class_recall(confusion))


def macro_f1(confusion: Counts) -> Score:
    """Mean F1 over classes with support."""
    return mean_score(per_class_f1(confusion))


def matthews(confusion: Counts) -> Score:
    """``(s h - sum_c t_c p_c) / sqrt((s^2 - sum t_c^2) (s^2 - sum p_c^2))`` for s samples, h hits, support t and predictions p.

    0 where all predictions are of one class, None where all samples are. Gorodkin (2004), R_K.
    """
    hits, supports, predicted = (
        torch.tensor(column, dtype=torch.float64) for column in zip(*_margins(confusion), strict=True)
    )
    samples = supports.sum()
    true, guessed = (float(samples**2 - column.square().sum()) for column in (supports, predicted))
    if not true:
        return None
    covariance = float(samples * hits.sum() - supports @ predicted)
    return covariance / math.sqrt(true * guessed) if guessed else 0.0


def weighted_f1(confusion: Counts) -> Score:
    """Mean F1 weighted by support."""
    supports = [support for _, support, _ in _margins(confusion)]
    return _weighted_mean(supports, per_class_f1(confusion))


def g_mean(confusion: Counts) -> Score:
    """Geometric mean of recall over classes with support."""
    recalls = _present(per_class_recall(confusion))
    if not recalls:
        return None
    # in logarithms, since a product over a thousand classes underflows
    return math.exp(math.fsum(map(math.log, recalls)) / len(recalls)) if all(recalls) else 0.0


def worst_class(confusion: Counts) -> Worst | None:
    """The class of lowest recall among those with support."""
    return _worst(per_class_recall(confusion))


def weighted_score(
    confusion: Counts, recall_weights: Sequence[float], precision_weights: Sequence[float]
) -> Score:
    """``sum_c (a_c recall_c + b_c precision_c) / sum_c (a_c + b_c)`` over classes with support.

    Weight on the recall of defects and on the precision of the rest gives a score of the kind that FedCGNM
    reports for chip defects; the weights it used are not public.
    """
    values = [*per_class_recall(confusion), *per_class_precision(confusion)]
    for name, weights in (("recall_weights", recall_weights), ("precision_weights", precision_weights)):
        if 2 * len(weights) != len(values) or not all(0 <= w < math.inf for w in weights):
            needed = f"{len(values) // 2} numbers of at least 0, one per class"
            raise ConfigError(f"{name} must be {needed}, not {short(list(weights))}")
    return _weighted_mean([*recall_weights, *precision_weights], values)


def worst_client(confusions: Iterable[Counts]) -> Worst | None:
    """The client of lowest balanced accuracy among those with test data."""
    return _worst([balanced_accuracy(counts) for counts in confusions])


def best_client(confusions: Iterable[Counts]) -> Worst | None:
    """The client of highest balanced accuracy among those with test data."""
    worst = _worst([None if (one := balanced_accuracy(counts)) is None else -one for counts in confusions])
    return worst and Worst(worst.which, -worst.score)


def client_deviation(confusions: Iterable[Counts]) -> Score:
    """Population deviation of balanced accuracy over the clients with test data."""
    present = _present(balanced_accuracy(counts) for counts in confusions)
    return statistics.pstdev(present) if present else None


def mean_client_balanced_accuracy(confusions: Iterable[Counts]) -> Score:
    """Plain mean of balanced accuracy over the clients with test data."""
    return mean_score(balanced_accuracy(counts) for counts in confusions)


def expected_calibration_error(calibration: Counts) -> Score:
    """``sum_bins |hits - confidences| / samples`` of the sums [3, bins] that `calibration` gives."""
    samples, confidences, hits = torch.as_tensor(calibration, dtype=torch.float64, device="cpu")
    total = samples.sum().item()
    return (hits - confidences).abs().sum().item() / total if total else None


def mean_cross_entropy(sums: Counts) -> Score:
    """Mean of the sums [2] that `cross_entropies` gives; None also where it is not finite, as of a model that diverged."""
    samples, total = torch.as_tensor(sums, dtype=torch.float64, device="cpu").tolist()
    return total / samples if samples and math.isfinite(total) else None


def mean_score(values: Iterable[Score]) -> Score:
    """Mean of the scores that are not None."""
    present = _present(values)
    return math.fsum(present) / len(present) if present else None


def _margins(confusion: Counts) -> list[tuple[float, float, float]]:
    """Hits, support and predictions of each class."""
    counts = torch.as_tensor(confusion, dtype=torch.float64, device="cpu")
    if counts.dim() != 2 or counts.shape[0] != counts.shape[1]:
        raise ConfigError(f"confusion must have shape [C, C], not {list(counts.shape)}")
    return list(zip(*(c.tolist() for c in (counts.diagonal(), counts.sum(1), counts.sum(0))), strict=True))


def _present(values: Iterable[Score]) -> list[float]:
    return [value for value in values if value is not None]


def _weighted_mean(weights: Sequence[float], values: Sequence[Score]) -> Score:
    pairs = [(weight, value) for weight, value in zip(weights, values, strict=True) if value is not None]
    total = math.fsum(weight for weight, _ in pairs)
    return math.fsum(weight * value for weight, value in pairs) / total if total else None


def _worst(values: Sequence[Score]) -> Worst | None:
    scored = [Worst(which, value) for which, value in enumerate(values) if value is not None]
    return min(scored, key=lambda worst: worst.score, default=None)
