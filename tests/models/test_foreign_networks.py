"""Networks as people bring them, three rounds: the loop and the stacked engine agree, and a run repeats bit for bit."""

from __future__ import annotations

from dataclasses import replace

import pytest
import torch
from federations import LOOP, STACKED, all_state, distance, run_rounds
from foreign import CLASSES, NETWORKS, Foreign, inputs_like
from torch import nn

from counterpoise.core.codec import digest
from counterpoise.core.local import Local
from counterpoise.core.rng import generator
from counterpoise.core.tree import Tree
from counterpoise.data.dataset import Samples, no_scaling
from counterpoise.data.federation import Federation
from counterpoise.engines.choose import EngineSettings
from counterpoise.run.build import build_simulation

CLOSE = 1e-8
SIZES = (8, 5)  # one leaves a batch that is not full, the other has less than a batch
LOCAL = Local(lr=0.1, batch_size=6, momentum=0.5)


def foreign_federation(network: Foreign) -> Federation:
    """Two clients of unequal size with inputs of the kind that a network takes."""
    labels = torch.arange(sum(SIZES)) % CLASSES
    x = inputs_like(network.inputs, labels, generator(0, "foreign inputs"))
    samples = Samples(x, labels)
    names = tuple(f"class {c}" for c in range(CLASSES))
    rows = torch.split(torch.arange(len(labels)), list(SIZES))
    return Federation(samples, samples, names, no_scaling(), rows)


def built(network: Foreign) -> nn.Module:
    """The network with its own first parameters, the same each time."""
    with torch.random.fork_rng():
        torch.manual_seed(1)
        return network.build()


def trained(network: Foreign, engine: EngineSettings) -> Tree:
    sim = build_simulation(
        foreign_federation(network), "scaffold", built(network), rounds=3, local=LOCAL, seed=3,
        engine=replace(engine, dtype="float64"),
    )  # fmt: skip
    return all_state(sim, run_rounds(sim))


@pytest.mark.parametrize("name", NETWORKS)
def test_a_foreign_network_trains_alike_in_both_engines_and_repeats_bit_for_bit(name: str) -> None:
    network = NETWORKS[name]
    start = dict(built(network).named_parameters())

    alone, together = trained(network, LOOP), trained(network, STACKED)

    assert distance(alone, together) < CLOSE
    assert digest(alone) == digest(trained(network, LOOP))
    assert digest(together) == digest(trained(network, STACKED))
    assert all(torch.isfinite(leaf).all() for leaf in alone["params"].values())
    assert any(not torch.equal(leaf, start[path]) for path, leaf in alone["params"].items())
