"""What a model answers: scores of each class by it, and the words on a threshold that answers go by."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from counterpoise.metrics.scores import (
    Counts,
    Score,
    per_class_f1,
    per_class_precision,
    per_class_recall,
)
from counterpoise.metrics.threshold import Decision

CALLED = "threshold_confusion"  # counts of the answers at the threshold, in summaries and rows
BY_PROBABILITY = "the more probable class"  # what a model without a threshold answers
CLASS_SCORES = {"recall": per_class_recall, "precision": per_class_precision, "f1": per_class_f1}
AT_THRESHOLD = {
    "recall": "recall",
    "precision": "precision",
    "f1": "F1",
    "balanced_accuracy": "balanced accuracy",
}


def class_scores(counts: Counts) -> dict[str, list[Score]]:
    """Scores of each class, by name, from counts [true class][answer]."""
    return {name: score_of(counts) for name, score_of in CLASS_SCORES.items()}


def called_from(decision: Decision, classes: Sequence[str]) -> str:
    """How answers follow from probabilities."""
    return f"called {classes[decision.positive]} from a probability of {decision.chance:.4g} on"


def scores_at_threshold(summary: Mapping[str, Any]) -> str:
    """The scores of a run with a threshold on the test set."""
    found = {words: summary.get(f"threshold_{key}") for key, words in AT_THRESHOLD.items()}
    known = [f"{words} {100 * score:.1f} %" for words, score in found.items() if score is not None]
    return ", ".join(known) or "no score"
