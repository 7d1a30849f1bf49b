"""How a model is scored: what is counted on each batch, and the scores computed from the sums."""

from __future__ import annotations

import statistics
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from torch import Tensor

from counterpoise.core.part import Batch, Outputs
from counterpoise.core.tree import Tree
from counterpoise.metrics import scores
from counterpoise.metrics.catalogue import compute_scores
from counterpoise.metrics.confusion import calibration, confusion, cross_entropies
from counterpoise.metrics.roc import bins_for, histograms
from counterpoise.metrics.shots import Shots, group_recall
from counterpoise.metrics.threshold import Goal, choose_threshold, confusion_at

MOST_LISTED = 1000  # clients whose scores are recorded one by one


@dataclass(frozen=True)
class Scoring:
    """How a model is scored: groups of classes, and the user's own weighting of recalls and precisions."""

    shots: Shots
    classes: Sequence[str]
    recall_weights: Sequence[float] = ()
    precision_weights: Sequence[float] = ()
    clients: bool = False  # also on what each client holds out
    personal: bool = False  # there also the model that each client would use
    positive: int | None = None  # of two classes the one that is to be found
    threshold: Goal | None = None  # what the threshold of that class is chosen for

    def scores(self, sums: Tree, validation: Tree | None = None) -> dict[str, Any]:
        """Scores by name from the sums that `count_all` made; those on validation samples choose the threshold."""
        known = {**sums, **({} if self.positive is None else {"positive": self.positive})}
        if validation is not None:
            known |= self._at_threshold(sums, validation)
        found = summarise(sums["confusion"], self.shots, self.classes) | compute_scores(known)
        if known.get("called") is not None:
            found["threshold_confusion"] = self._in_order(known["called"])
        if self.recall_weights or self.precision_weights:
            nothing = [0.0] * len(self.classes)
            found["weighted_score"] = scores.weighted_score(
                sums["confusion"], self.recall_weights or nothing, self.precision_weights or nothing
            )
        return found

    def _at_threshold(self, sums: Tree, validation: Tree) -> Tree:
        if self.threshold is None or self.positive is None:
            return {}
        seen, chosen_on = (one["histograms"][:, :, self.positive] for one in (sums, validation))
        threshold = choose_threshold(chosen_on, self.threshold)
        if threshold is None:
            return {"threshold": None, "called": None}
        return {"threshold": threshold.chance, "called": confusion_at(seen, threshold)}

    def _in_order(self, called: Tensor) -> list[list[int]]:
        """Counts [true class][answer] in the order of the classes."""
        counts = called if self.positive == 1 else called.flip(0, 1)
        return [[int(count) for count in row] for row in counts.tolist()]


def count_all(outputs: Outputs, batch: Batch) -> Tree:
    """All that scores are made of: what `count` counts, and histograms [bins, 2, C] of each class's probability."""
    counted = count(outputs, batch)
    if not bins_for(outputs.logits.shape[-1]):
        return counted
    return counted | {"histograms": histograms(outputs.logits, batch.y, batch.mask)}


def count(outputs: Outputs, batch: Batch) -> Tree:
    """Confusion counts [true class, predicted class], calibration sums [3, bins] and cross-entropy sums [2]."""
    given = outputs.logits, batch.y, batch.mask
    return {
        "confusion": confusion(*given),
        "calibration": calibration(*given),
        "cross_entropies": cross_entropies(*given),
    }


def samples_counted(sums: Tree) -> list[Tensor]:
    """[K, ...] for how many samples each of the sums of K models stands: in true counts for as many as were counted."""
    tables = sums["confusion"].double(), sums["calibration"].double()
    found = [tables[0].sum((-1, -2)), tables[1][..., 0, :].sum(-1), sums["cross_entropies"][..., 0].double()]
    return found + ([sums["histograms"].double().sum((-3, -2))] if "histograms" in sums else [])


def score_clients(clients: Sequence[int], confusions: Sequence[Any]) -> dict[str, Any]:
    """How even a model is over clients, or how good models of their own are, by what each of them holds out."""
    worst, best = scores.worst_client(confusions), scores.best_client(confusions)
    return {
        "mean_client_balanced_accuracy": scores.mean_client_balanced_accuracy(confusions),
        "client_deviation": scores.client_deviation(confusions),
        "worst_client": worst and clients[worst.which],
        "worst_client_balanced_accuracy": worst and worst.score,
        "best_client": best and clients[best.which],
        "best_client_balanced_accuracy": best and best.score,
        **_accuracy_over_clients(confusions),
        **(_each_client(clients, confusions) if len(clients) <= MOST_LISTED else {}),
    }


def _accuracy_over_clients(confusions: Sequence[Any]) -> dict[str, Any]:
    """Mean, deviation, lowest and highest, as papers on uneven clients print them."""
    found = [one for one in map(scores.accuracy, confusions) if one is not None]
    return {
        "mean_client_accuracy": statistics.fmean(found) if found else None,
        "client_accuracy_deviation": statistics.pstdev(found) if found else None,
        "worst_client_accuracy": min(found, default=None),
        "best_client_accuracy": max(found, default=None),
    }


def _each_client(clients: Sequence[int], confusions: Sequence[Any]) -> dict[str, Any]:
    return {
        "client": list(clients),
        "client_held_out": [int(one.sum()) for one in confusions],
        "client_accuracy": [scores.accuracy(one) for one in confusions],
        "client_balanced_accuracy": [scores.balanced_accuracy(one) for one in confusions],
    }


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
