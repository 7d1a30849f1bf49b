"""All scores of one confusion matrix, ready for JSON: null stands for n/a."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from counterpoise.metrics import scores
from counterpoise.metrics.shots import Shots, group_recall


def summarise(confusion: scores.Counts, shots: Shots, classes: Sequence[str]) -> dict[str, Any]:
    """Scores by name; means are over the ``supported_classes`` classes that have test samples."""
    recalls = scores.per_class_recall(confusion)
    worst = scores.worst_class(confusion)
    return {
        "accuracy": scores.accuracy(confusion),
        "balanced_accuracy": scores.balanced_accuracy(confusion),
        "macro_f1": scores.macro_f1(confusion),
        "weighted_f1": scores.weighted_f1(confusion),
        "g_mean": scores.g_mean(confusion),
        "per_class_recall": recalls,
        "per_class_precision": scores.per_class_precision(confusion),
        "per_class_f1": scores.per_class_f1(confusion),
        **{group: group_recall(recalls, ids) for group, ids in shots._asdict().items()},
        "worst_class": worst and classes[worst.which],
        "worst_class_recall": worst and worst.score,
        "supported_classes": sum(recall is not None for recall in recalls),
    }
