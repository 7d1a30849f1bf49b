"""Parameters that the outputs depend on move less: elastic aggregation."""

from __future__ import annotations

from typing import Annotated

import torch
from torch import Tensor

from counterpoise.core.method import part
from counterpoise.core.part import Batch, Exchange, Outputs, Part, Reveals, Stats, Step
from counterpoise.core.tree import Params, Tree, mix, tmap, zeros
from counterpoise.registry.schema import Fraction, NonNegative, ProperFraction

ELASTIC = "Chen et al. 2023, CVPR, Elastic Aggregation for Federated Optimization"


@part(paper=ELASTIC)
def elastic_aggregation(
    tau: NonNegative = 0.5,
    decay: ProperFraction = 0.95,
    share: Annotated[Fraction, "share of an epoch that the sensitivity is estimated on"] = 0.3,
) -> Part:
    """``x <- x + zeta * mean delta`` element by element, ``zeta = 1 + tau - mean_k Omega_k / max_k Omega_k``.

    ``Omega <- decay Omega + (1 - decay) |d ||F(x)||^2 / d theta|`` at the received model, from 0 in each round, over the first
    batches; it needs no labels. Where no client is sensitive, zeta is 1 + tau.
    """

    def start(params: Params, shared: Tree, memory: Tree, stats: Stats) -> Tree:
        return {"received": params, "sensitivity": zeros(params)}

    def adjust(grads: Params, slot: Tree, step: Step) -> tuple[Params, Tree]:
        found = step.gradient_at(slot["received"], objective=squared_outputs).grads
        counted = begins_within(step.batch, step.stats.steps, step.stats.epochs, share)
        sensitivity = tmap(
            lambda old, g: torch.where(counted, torch.lerp(g.abs(), old, decay), old),
            slot["sensitivity"],
            found,
        )
        return grads, slot | {"sensitivity": sensitivity}

    def finish(delta: Params, slot: Tree, memory: Tree, stats: Stats) -> tuple[Tree, Tree]:
        return {"sensitivity": slot["sensitivity"]}, memory

    def update(delta: Params, slot: Tree, exchange: Exchange) -> tuple[Params, Tree]:
        each = exchange.upload["sensitivity"]
        mean, most = mix(exchange.weights, each), tmap(lambda leaf: leaf.amax(0), each)
        return tmap(lambda d, m, o: d * (1 + tau - _ratio(m, o)), delta, mean, most), slot

    words = (
        "how much the model's outputs on its inputs depend on each parameter, a vector as long as the model"
    )
    return Part(start=start, adjust=adjust, finish=finish, update=update, reveals=Reveals(upload=words))


def begins_within(batch: Batch, steps: Tensor, epochs: Tensor, share: float) -> Tensor:
    """Whether a batch is among the first of its round that make up `share` of an epoch: of 10 batches 0.3 are three."""
    below = share * (1 - 1e-6)  # 0.3 rounds up, and a little more than three batches would be four
    return batch.steps_done(steps) * epochs < below * steps


def squared_outputs(outputs: Outputs, batch: Batch) -> Tensor:
    """Mean over the batch of ``||F(x)||^2``."""
    return (outputs.logits.square().sum(-1) * batch.mask).sum() / batch.mask.sum().clamp(min=1)


def _ratio(mean: Tensor, most: Tensor) -> Tensor:
    return torch.where(most > 0, mean / most.clamp(min=torch.finfo(most.dtype).tiny), 0.0)
