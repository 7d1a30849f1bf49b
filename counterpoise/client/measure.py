"""One pass of a model over samples, adding up what a measurement counts."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import suppress

import torch
from torch import Tensor, vmap

from counterpoise.client.functional import FunctionalModel
from counterpoise.core.part import Batch, Measurement, Outputs
from counterpoise.core.tree import Params, Tree, add, stack, take
from counterpoise.data.dataset import Samples, Scaling
from counterpoise.metrics.scoring import count_all

BATCH = 1000
STACKED = 8  # models per chunk of vmap


def measure_many(
    model: FunctionalModel,
    models: Params,
    buffers: Params,
    samples: Samples,
    scaling: Scaling,
    measurement: Measurement = count_all,
) -> Tree:
    """Sums [M, ...] of a measurement of M stacked models; on a GPU several at once."""
    given = model, models, buffers, samples, scaling, measurement
    if samples.x.is_cuda:  # on a CPU stacking does not pay
        # A user's layer may not run under vmap, or memory may run out.
        with suppress(RuntimeError, ValueError):
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
    """Sums [M, ...] of M stacked models, several at once under vmap; running statistics are inputs, like weights."""

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
        for batch in batches_to_score(model, samples, scaling):
            outputs, _ = model.apply(params, buffers, batch.x, train=False)
            sums = measurement(outputs, batch)
            total = add(total, sums) if total else sums
    return total


def batches_to_score(model: FunctionalModel, samples: Samples, scaling: Scaling) -> Iterator[Batch]:
    """All samples once, scaled, in the memory format that the model likes."""
    for x, y in zip(torch.split(samples.x, BATCH), torch.split(samples.y, BATCH), strict=True):
        yield Batch(model.arrange(scaling(x)), y, torch.ones_like(y))


def outputs_of(
    model: FunctionalModel, params: Params, buffers: Params, x: Tensor, scaling: Scaling
) -> Outputs:
    """A model's outputs on unscaled inputs [n, ...], without gradients and in evaluation mode."""
    with torch.no_grad():
        found = [
            model.apply(params, buffers, model.arrange(scaling(piece)), train=False)[0]
            for piece in torch.split(x, BATCH)
        ]
    return Outputs(torch.cat([one.logits for one in found]), torch.cat([one.features for one in found]))
