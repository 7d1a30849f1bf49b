"""Networks as people bring them, three rounds: the loop and the stacked engine agree, and a run repeats bit for bit."""

from __future__ import annotations

from dataclasses import replace

import pytest
import torch
from federations import GPU_LOOP, GPU_STACKED, LOOP, STACKED, all_state, distance, run_rounds
from foreign import CLASSES, NETWORKS, Foreign, inputs_like
from torch import Tensor, nn

from counterpoise.client.functional import FunctionalModel
from counterpoise.core.codec import digest
from counterpoise.core.local import Local
from counterpoise.core.rng import generator
from counterpoise.core.tree import Tree
from counterpoise.data.dataset import Samples, no_scaling
from counterpoise.data.federation import Federation
from counterpoise.engines.choose import EngineSettings
from counterpoise.errors import ConfigError
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


def test_batches_of_a_model_with_batch_norm_are_filled_up_without_being_asked() -> None:
    network = NETWORKS["BatchNorm CNN"]

    sim = build_simulation(foreign_federation(network), "fedavg", built(network), rounds=1)

    assert sim.work.local.batching == "wrap"


def test_a_model_that_cannot_be_stacked_is_told_in_one_line() -> None:
    def spectral() -> nn.Module:
        layer = nn.utils.parametrizations.spectral_norm(nn.Linear(24, 4))
        return nn.Sequential(nn.Flatten(), layer)

    network = Foreign(spectral, "spectral norm", "series")

    assert trained(network, LOOP)
    with pytest.raises(ConfigError, match=r'^engine.name = "stacked" cannot train this model: .*use "loop"'):
        trained(network, STACKED)


class _Lossy(nn.Module):
    """Does something between its features and its head."""

    def __init__(self) -> None:
        super().__init__()
        self.features, self.head = nn.Conv2d(3, 5, 3), nn.Linear(5, CLASSES)

    def forward(self, x: Tensor) -> Tensor:
        return self.head(self.features(x).mean((2, 3)))  # type: ignore[no-any-return]


class _Bent(nn.Module):
    """Fits, but is another function than its head on its features."""

    def __init__(self) -> None:
        super().__init__()
        self.features, self.head = nn.Sequential(nn.Flatten(), nn.Linear(192, 5)), nn.Linear(5, CLASSES)

    def forward(self, x: Tensor) -> Tensor:
        return self.head(self.features(x).relu())  # type: ignore[no-any-return]


@pytest.mark.parametrize("build", [_Lossy, _Bent])
def test_a_model_that_is_not_its_head_on_its_features_is_refused(build: type[nn.Module]) -> None:
    with pytest.raises(ConfigError, match=r"head\(features\(x\)\) must be what the model gives for x"):
        trained(Foreign(build, ""), LOOP)


class _Spy(nn.Module):
    """Notes whether cuDNN was on when it was called."""

    def __init__(self, layer: nn.Module) -> None:
        super().__init__()
        self.layer, self.head, self.seen = layer, nn.Linear(5, CLASSES), set[bool]()

    def forward(self, x: Tensor) -> Tensor:
        self.seen.add(torch.backends.cudnn.enabled)
        out = self.layer(x)
        return self.head((out[0] if isinstance(out, tuple) else out).mean(1))  # type: ignore[no-any-return]


@pytest.mark.parametrize(("layer", "on"), [(nn.GRU(4, 5, batch_first=True), False), (nn.Linear(4, 5), True)])
def test_only_networks_with_recurrent_layers_run_without_cudnn(layer: nn.Module, on: bool) -> None:
    spy = _Spy(layer)
    model, x = FunctionalModel(spy), torch.randn(2, 3, 4)

    model.apply(model.params(), model.buffers(), x, train=True)

    assert spy.seen == {on}
    assert torch.backends.cudnn.enabled


@pytest.mark.skipif(not torch.cuda.is_available(), reason="no GPU on this machine")
@pytest.mark.parametrize("engine", [GPU_LOOP, GPU_STACKED], ids=["loop", "captured"])
@pytest.mark.parametrize("name", NETWORKS)
def test_a_foreign_network_trains_on_a_gpu_as_on_a_cpu(name: str, engine: EngineSettings) -> None:
    network = NETWORKS[name]

    assert distance(trained(network, LOOP), trained(network, engine)) < CLOSE
