"""Networks of timm, torchvision and transformers (`make test-foreign`): three rounds alike in both engines, and what is made of them."""

from __future__ import annotations

from dataclasses import replace

import pytest
import torch
from federations import LOOP, STACKED, all_state, distance, run_rounds
from foreign import CLASSES, inputs_like
from foreign_packages import PACKAGED, Packaged
from torch import nn

from counterpoise.core.codec import digest
from counterpoise.core.local import Local
from counterpoise.core.method import MethodSpec
from counterpoise.core.rng import generator
from counterpoise.core.tree import Tree
from counterpoise.data.dataset import Samples, no_scaling
from counterpoise.data.federation import Federation
from counterpoise.engines.choose import EngineSettings
from counterpoise.run.build import build_simulation
from counterpoise.run.simulation import Simulation

pytestmark = pytest.mark.foreign  # without the packages these fail, since nobody asks for them by accident

SIZES = (8, 5)  # one leaves a batch that is not full, the other has less than a batch
# Larger steps say nothing here: norms over six samples make of a last bit a last digit within three rounds.
LOCAL = Local(lr=0.001, batch_size=6, momentum=0.5)
NEEDY: tuple[MethodSpec, ...] = (["fedavg", "ldam"], "fedetf", ["fedavg", "aggregation_balancer"], "moon")


def packaged_federation(network: Packaged) -> Federation:
    """Two clients of unequal size with inputs that a network takes."""
    labels, stream = torch.arange(sum(SIZES)) % CLASSES, generator(0, "packaged inputs")
    if network.pixels is None:
        x = inputs_like("masked", labels, stream)
    else:
        shape = 3, network.pixels, network.pixels
        noise = torch.randn(len(labels), *shape, generator=stream, dtype=torch.float64)
        x = noise + 0.5 * labels.view(-1, 1, 1, 1)
    samples = Samples(x, labels)
    rows = torch.split(torch.arange(len(labels)), list(SIZES))
    return Federation(samples, samples, tuple(map(str, range(CLASSES))), no_scaling(), rows)


def built(network: Packaged) -> nn.Module:
    """The network with its own first parameters, the same each time."""
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(1)
        return network.build()


def simulation(network: Packaged, method: MethodSpec, rounds: int, engine: EngineSettings) -> Simulation:
    return build_simulation(
        packaged_federation(network),
        method,
        built(network),
        rounds=rounds,
        local=LOCAL,
        seed=3,
        engine=engine,
    )


def trained(network: Packaged, engine: EngineSettings) -> Tree:
    sim = simulation(network, "fedavg", 3, replace(engine, dtype="float64"))
    return all_state(sim, run_rounds(sim))


@pytest.mark.parametrize("name", PACKAGED)
def test_a_network_of_a_package_trains_alike_in_both_engines_and_repeats_bit_for_bit(name: str) -> None:
    network = PACKAGED[name]
    start = dict(built(network).named_parameters())

    alone, together = trained(network, LOOP), trained(network, STACKED)

    apart = distance(alone, together)
    print(f"| {name} | {network.layers} | {sum(p.numel() for p in start.values()):,} | {apart:.1e} |")
    assert apart < network.close
    assert digest(alone) == digest(trained(network, LOOP))
    assert digest(together) == digest(trained(network, STACKED))
    assert any(not torch.equal(leaf, start[path]) for path, leaf in alone["params"].items())


@pytest.mark.parametrize("name", [name for name, network in PACKAGED.items() if network.has_head])
def test_methods_that_need_a_head_find_it(name: str) -> None:
    for method in NEEDY:
        sim = simulation(PACKAGED[name], method, 1, LOOP)
        assert isinstance(sim.work.model.module.head, nn.Module)
        run_rounds(sim)
