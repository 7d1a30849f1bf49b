"""One pass of a model over samples, adding up whatever a measurement counts."""

from __future__ import annotations

from collections.abc import Callable
from typing import TypeAlias

import torch

from counterpoise.core.part import Batch, Outputs
from counterpoise.core.tree import Params, Tree, add
from counterpoise.data.dataset import Samples, Scaling
from counterpoise.functional import FunctionalModel
from counterpoise.metrics import confusion

Measurement: TypeAlias = Callable[
    [Outputs, Batch], Tree
]  # sums over a batch, so that batches and clients add up

BATCH = 1000


def count_confusions(outputs: Outputs, batch: Batch) -> Tree:
    """Counts [true class, predicted class]."""
    return {"confusion": confusion(outputs.logits, batch.y, batch.mask)}


def measure(
    model: FunctionalModel,
    params: Params,
    buffers: Params,
    samples: Samples,
    scaling: Scaling,
    measurement: Measurement = count_confusions,
) -> Tree:
    """Sums of a measurement over all samples, without gradients and in evaluation mode."""
    total: Tree = {}
    with torch.no_grad():
        for x, y in zip(torch.split(samples.x, BATCH), torch.split(samples.y, BATCH), strict=True):
            outputs, _ = model.apply(params, buffers, scaling(x), train=False)
            sums = measurement(outputs, Batch(x, y, torch.ones_like(y)))
            total = add(total, sums) if total else sums
    return total
