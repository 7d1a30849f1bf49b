"""One pass of a model over samples, adding up whatever a measurement counts."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from contextlib import suppress
from dataclasses import dataclass
from typing import Any, TypeAlias

import torch
from torch import vmap

from counterpoise.core.part import Batch, Outputs
from counterpoise.core.tree import Params, Tree, add, stack, take
from counterpoise.data.dataset import Samples, Scaling
from counterpoise.functional import FunctionalModel
from counterpoise.metrics import (
    Shots,
    calibration,
    confusion,
    cross_entropies,
    histograms,
    mean_client_balanced_accuracy,
    summarise,
    weighted_score,
    worst_client,
)
from counterpoise.metrics.catalogue import work_out
from counterpoise.metrics.roc import bins_for

Measurement: TypeAlias = Callable[
    [Outputs, Batch], Tree
]  # sums over a batch, so that batches and clients add up

BATCH = 1000
STACKED = 8  # models that pass over a batch side by side


@dataclass(frozen=True)
class Scoring:
    """How a model is scored: groups of classes, and the user's own weighting of recalls and precisions."""

    shots: Shots
    classes: Sequence[str]
    recall_weights: Sequence[float] = ()
    precision_weights: Sequence[float] = ()
    clients: bool = False  # also on what each client holds out

    def scores(self, sums: Tree) -> dict[str, Any]:
        """Scores by name from the sums that `count_all` made."""
        found = summarise(sums["confusion"], self.shots, self.classes) | work_out(sums)
        if self.recall_weights or self.precision_weights:
            nothing = [0.0] * len(self.classes)
            found["weighted_score"] = weighted_score(
                sums["confusion"], self.recall_weights or nothing, self.precision_weights or nothing
            )
        return found


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


def score_clients(clients: Sequence[int], confusions: Sequence[Any]) -> dict[str, Any]:
    """How even a model is over clients, by what each of them holds out."""
    worst = worst_client(confusions)
    return {
        "mean_client_balanced_accuracy": mean_client_balanced_accuracy(confusions),
        "worst_client": worst and clients[worst.which],
        "worst_client_balanced_accuracy": worst and worst.score,
    }


def measure_many(
    model: FunctionalModel,
    models: Params,
    buffers: Params,
    samples: Samples,
    scaling: Scaling,
    measurement: Measurement = count_all,
) -> Tree:
    """Sums [M, ...] of a measurement of M stacked models; on a GPU they pass over the samples side by side."""
    given = model, models, buffers, samples, scaling, measurement
    if samples.x.is_cuda:  # on a CPU stacking does not pay
        with suppress(RuntimeError, ValueError):  # a layer of the user's may not stack, or memory not do
            return measure_stacked(*given)
    return measure_each(*given)


def measure_each(
    model: FunctionalModel,
    models: Params,
    buffers: Params,
    samples: Samples,
    scaling: Scaling,
    measurement: Measurement = count_all,
) -> Tree:
    """Sums [M, ...] of M stacked models, one after another."""
    count = len(next(iter(models.values())))
    return stack(
        [
            measure(model, take(models, k), take(buffers, k), samples, scaling, measurement)
            for k in range(count)
        ]
    )


def measure_stacked(
    model: FunctionalModel,
    models: Params,
    buffers: Params,
    samples: Samples,
    scaling: Scaling,
    measurement: Measurement = count_all,
) -> Tree:
    """Sums [M, ...] of M stacked models, some of them side by side; a running statistic is an input as a weight is."""

    def one(params: Params, buffers: Params) -> Tree:
        return measure(model.stackable, params, buffers, samples, scaling, measurement)

    together: Tree = vmap(one, chunk_size=STACKED)(models, buffers)
    return together


def measure(
    model: FunctionalModel,
    params: Params,
    buffers: Params,
    samples: Samples,
    scaling: Scaling,
    measurement: Measurement = count_all,
) -> Tree:
    """Sums of a measurement over all samples, without gradients and in evaluation mode."""
    total: Tree = {}
    with torch.no_grad():
        for x, y in zip(torch.split(samples.x, BATCH), torch.split(samples.y, BATCH), strict=True):
            outputs, _ = model.apply(params, buffers, model.arrange(scaling(x)), train=False)
            sums = measurement(outputs, Batch(x, y, torch.ones_like(y)))
            total = add(total, sums) if total else sums
    return total
