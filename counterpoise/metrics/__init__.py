"""Confusion counts that add up over clients, and the scores read off them."""

from counterpoise.metrics.confusion import calibration, confusion, cross_entropies
from counterpoise.metrics.roc import histograms, per_class_auroc, per_class_average_precision
from counterpoise.metrics.scores import (
    Score,
    Worst,
    accuracy,
    balanced_accuracy,
    expected_calibration_error,
    g_mean,
    macro_f1,
    matthews,
    mean_client_balanced_accuracy,
    mean_cross_entropy,
    per_class_f1,
    per_class_precision,
    per_class_recall,
    weighted_f1,
    weighted_score,
    worst_class,
    worst_client,
)
from counterpoise.metrics.shots import Shots, group_recall, shots_by_rule, shots_from_sets, shots_paper
from counterpoise.metrics.summary import summarise

__all__ = [
    "Score",
    "Shots",
    "Worst",
    "accuracy",
    "balanced_accuracy",
    "calibration",
    "confusion",
    "cross_entropies",
    "expected_calibration_error",
    "g_mean",
    "group_recall",
    "histograms",
    "macro_f1",
    "matthews",
    "mean_client_balanced_accuracy",
    "mean_cross_entropy",
    "per_class_auroc",
    "per_class_average_precision",
    "per_class_f1",
    "per_class_precision",
    "per_class_recall",
    "shots_by_rule",
    "shots_from_sets",
    "shots_paper",
    "summarise",
    "weighted_f1",
    "weighted_score",
    "worst_class",
    "worst_client",
]
