"""Sums over all samples do not depend on how the pass is cut into batches."""

from __future__ import annotations

import torch
from federations import CLASSES, simulate, unequal_federation

from counterpoise.client.measure import BATCH, measure
from counterpoise.core.part import Batch, Outputs, Pair
from counterpoise.core.tree import Tree, stack, take
from counterpoise.data.dataset import Samples, no_scaling


def _hits(outputs: Outputs, batch: Batch) -> Tree:
    return {"hits": (outputs.logits.argmax(1) == batch.y).sum(), "samples": batch.mask.sum()}


def test_a_measurement_adds_up_over_batches() -> None:
    sim = simulate("fedavg")
    state, federation = sim.open(), sim.work.federation
    rows = torch.arange(2 * BATCH + 7) % len(federation.train.y)
    samples = Samples(federation.train.x[rows], federation.train.y[rows])
    sums = measure(sim.work.model, state.params, {}, samples, no_scaling().to(torch.float64), _hits)
    logits = sim.work.model.module(samples.x)
    assert int(sums["samples"]) == len(rows)
    assert int(sums["hits"]) == int((logits.argmax(1) == samples.y).sum())


def test_evaluation_counts_every_test_sample_once() -> None:
    sim = simulate("fedavg")
    sums = measure(
        sim.work.model, sim.open().params, {}, sim.work.federation.test, sim.work.federation.scaling
    )
    assert sums["confusion"].sum(1).tolist() == [5] * CLASSES


def test_clients_measure_stacked_models_on_what_they_hold_out() -> None:
    sim = simulate("fedavg", federation=unequal_federation())
    params = sim.open().params
    models = stack([params, take({k: v[None] * -1 for k, v in params.items()}, 0)])
    pairs = [Pair(0, 0), Pair(3, 0), Pair(3, 1)]
    sums = sim.engine.measure(pairs, models, {}, _hits)
    assert sums["samples"].tolist() == [3, 3, 3]
    data, rows = sim.work.federation.train, sim.work.federation.held_out[3]
    own = (sim.work.model.module(data.x[rows]).argmax(1) == data.y[rows]).sum()
    assert sums["hits"][1] == own
