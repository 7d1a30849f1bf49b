"""Models that mix the samples of a batch are known by what they do, whatever their layers are called: padding never enters them."""

from __future__ import annotations

from dataclasses import replace

import pytest
import torch
from federations import LOOP, STACKED, all_state, distance, run_rounds, simulate
from torch import Tensor, nn

from counterpoise.client.trial import try_batch
from counterpoise.core.local import Local
from counterpoise.core.tree import Tree
from counterpoise.engines.choose import EngineSettings
from counterpoise.errors import ConfigError
from counterpoise.run.simulation import Simulation


class Centred(nn.Module):
    """Features less those of the batch on average: by the batch alone, or by a mean that is kept."""

    def __init__(self, keeps: bool) -> None:
        super().__init__()
        self.keeps = keeps
        self.register_buffer("mean", torch.zeros(5))

    def forward(self, x: Tensor) -> Tensor:
        if not self.training:
            return x - self.mean
        if self.keeps:
            kept: Tensor = self.mean
            kept.mul_(0.5).add_(0.5 * x.mean(0))
        return x - x.mean(0) if not self.keeps else x


def network(layer: nn.Module) -> nn.Module:
    return nn.Sequential(layer, nn.Linear(5, 6), nn.Tanh(), nn.Linear(6, 4))


def simulation(layer: nn.Module, engine: EngineSettings = LOOP, **local: object) -> Simulation:
    given = Local(lr=0.1, batch_size=12, **local)  # type: ignore[arg-type]
    return simulate("fedavg", model=network(layer), local=given, engine=engine)


def ended(layer: nn.Module, engine: EngineSettings) -> Tree:
    sim = simulation(layer, engine)
    return all_state(sim, run_rounds(sim))


@pytest.mark.parametrize("keeps", [False, True])
def test_engines_agree_and_batches_are_filled_with_samples(keeps: bool) -> None:
    layer = Centred(keeps)
    assert simulation(layer).work.local.batching == "wrap"
    assert distance(ended(layer, LOOP), ended(layer, replace(STACKED, chunk=3))) < 1e-8


def test_padding_that_is_asked_for_is_refused() -> None:
    with pytest.raises(
        ConfigError, match="layers that mix the samples of a batch, such as BatchNorm, not 'pad'"
    ):
        simulation(Centred(keeps=False), batching="pad")


@pytest.mark.parametrize(
    "layer",
    [
        nn.LayerNorm(5),
        nn.Dropout(0.5),
        nn.utils.parametrizations.spectral_norm(nn.Linear(5, 5)),  # it keeps something, but not of samples
    ],
    ids=["layer norm", "dropout", "spectral norm"],
)
def test_a_model_that_looks_at_each_sample_alone_does_not_mix(layer: nn.Module) -> None:
    assert not try_batch(network(layer), torch.zeros(2, 5), 4).mixes
    assert try_batch(network(nn.BatchNorm1d(5)), torch.zeros(2, 5), 4).mixes
