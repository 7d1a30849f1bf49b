"""First parameters come from the given stream alone, with torch's default distributions or, in ResNets, He's."""

from __future__ import annotations

import math

import pytest
import torch
from torch import Tensor, nn

from counterpoise.core.codec import digest
from counterpoise.core.rng import generator
from counterpoise.errors import ConfigError
from counterpoise.models.heads import CosineHead
from counterpoise.models.init import initialise
from counterpoise.models.model import MODELS
from counterpoise.models.norms import BatchNorm
from counterpoise.models.tabular import LSTM


def _small(name: str) -> nn.Module:
    entry = MODELS.entry(name)
    slim = {"width": 4} if "width" in entry.parameters else {}
    return entry.build(slim)(entry.facts["example"], 10)


def _drawn(name: str, seed: int) -> dict[str, Tensor]:
    module = _small(name)
    initialise(module, generator(seed, "init"))
    return {key: p.detach() for key, p in module.named_parameters()}


@pytest.mark.parametrize("name", MODELS.names())
def test_the_stream_alone_decides(name: str) -> None:
    first, again, other = _drawn(name, 0), _drawn(name, 0), _drawn(name, 1)
    assert all(torch.equal(first[key], again[key]) for key in first)
    assert not torch.equal(first["head.weight"], other["head.weight"])


@pytest.mark.parametrize("name", MODELS.names())
def test_the_global_generator_is_neither_read_nor_moved(name: str) -> None:
    module = _small(name)
    state = torch.get_rng_state()
    initialise(module, generator(0, "init"))
    assert torch.equal(torch.get_rng_state(), state)


@pytest.mark.parametrize("name", MODELS.names())
def test_every_parameter_is_overwritten(name: str) -> None:
    module = _small(name)
    for parameter in module.parameters():
        parameter.data.fill_(math.nan)
    initialise(module, generator(0, "init"))
    assert all(torch.isfinite(p).all() for p in module.parameters())


def test_the_type_of_a_model_does_not_change_its_start() -> None:
    single, double = _small("mlp"), _small("mlp").double()
    initialise(single, generator(0, "init"))
    initialise(double, generator(0, "init"))
    assert double.head.weight.dtype == torch.float64
    assert torch.equal(single.head.weight.double(), double.head.weight)


@pytest.mark.parametrize(
    ("layer", "bound"),
    [
        (nn.Linear(400, 500), 1 / 20),
        (nn.Conv2d(16, 64, 5), 1 / 20),
        (nn.Conv1d(300, 100, 3), 1 / 30),
        (nn.Conv2d(32, 64, 5, groups=2), 1 / 20),
        (CosineHead(400, 500), 1 / 20),
        (LSTM(200, 100), 1 / 10),
    ],
)
def test_weights_fill_torchs_default_interval_evenly(layer: nn.Module, bound: float) -> None:
    initialise(layer, generator(0, "init"))
    for parameter in layer.parameters():
        assert parameter.abs().max() <= bound
    weight = max(layer.parameters(), key=lambda p: p.numel()).detach()
    assert weight.abs().max() > 0.99 * bound
    assert weight.std().item() == pytest.approx(bound / math.sqrt(3), rel=0.02)
    assert abs(weight.mean().item()) < 0.02 * bound


@pytest.mark.parametrize(
    ("ours", "theirs"),
    [
        (nn.Linear(300, 200), nn.Linear(300, 200)),
        (nn.Conv2d(16, 64, 5), nn.Conv2d(16, 64, 5)),
        (LSTM(100, 80), nn.LSTM(100, 80)),
        (BatchNorm(5), nn.BatchNorm2d(5)),
        (nn.GroupNorm(2, 6), nn.GroupNorm(2, 6)),
    ],
)
def test_the_spread_is_that_of_torchs_own_layers(ours: nn.Module, theirs: nn.Module) -> None:
    initialise(ours, generator(0, "init"))
    for name, parameter in theirs.named_parameters():
        mine = ours.get_parameter(name).detach()
        assert mine.abs().max().item() == pytest.approx(parameter.abs().max().item(), rel=0.1)


def test_trained_norms_return_to_one_and_zero() -> None:
    norm = BatchNorm(3)
    norm.weight.data.fill_(7)
    norm.bias.data.fill_(7)
    initialise(norm, generator(0, "init"))
    assert norm.weight.tolist() == [1, 1, 1]
    assert norm.bias.tolist() == [0, 0, 0]


def test_unknown_layers_are_named() -> None:
    module = nn.Sequential(nn.Linear(2, 2), nn.Sequential(nn.PReLU()))
    with pytest.raises(
        ConfigError, match=r"no rule for PReLU at '1\.0'.* one of Linear, Conv1d, Conv2d, LSTM"
    ):
        initialise(module, generator(0, "init"))


# Standard deviations worked out by hand from 3x3 kernels of a ResNet-8: sqrt(2 / (9 * outputs)).
HE = {
    "body.0.0.0": 1 / 12 * math.sqrt(0.5),
    "body.2.residual.0.0": 1 / 24,
    "body.3.residual.2.0": 1 / 24 / math.sqrt(2),
}


@pytest.mark.parametrize("norm", ["batch", "group", "none"])
def test_resnets_start_from_hes_distribution(norm: str) -> None:
    module = MODELS.build("resnet8", {"norm": norm})((3, 32, 32), 10)
    initialise(module, generator(0, "init"))
    for path, std in HE.items():
        weight = module.get_parameter(f"{path}.weight").detach()
        sampled = math.sqrt(weight.numel())
        assert abs(weight.mean().item()) < 5 * std / sampled
        assert weight.std().item() == pytest.approx(std, rel=5 / math.sqrt(2) / sampled)
        # A normal distribution has 4.55 % beyond two deviations, torch's default none.
        assert (weight.abs() > 2 * std).double().mean().item() == pytest.approx(0.0455, abs=1.1 / sampled)


def test_the_shortcut_of_a_resnet_counts_its_own_kernel() -> None:
    module = MODELS.build("resnet8")((3, 32, 32), 10)
    initialise(module, generator(0, "init"))
    weight = module.get_parameter("body.2.shortcut.0.weight").detach()  # 1x1 to 128 channels: sqrt(2 / 128)
    assert weight.std().item() == pytest.approx(1 / 8, rel=5 / math.sqrt(2 * weight.numel()))


def test_beside_hes_convolutions_norms_are_one_and_zero_and_the_head_is_torchs() -> None:
    module = MODELS.build("resnet8")((3, 32, 32), 100)
    initialise(module, generator(0, "init"))
    for layer in module.modules():
        if isinstance(layer, BatchNorm):
            assert layer.weight is not None
            assert layer.bias is not None
            assert layer.weight.unique().tolist() == [1]
            assert layer.bias.unique().tolist() == [0]
    for drawn in module.head.parameters():  # 256 features
        assert drawn.abs().max() <= 1 / 16
        assert drawn.std().item() == pytest.approx(1 / 16 / math.sqrt(3), rel=0.2)


def test_without_norms_hes_biases_are_zero() -> None:
    module = MODELS.build("resnet8", {"norm": "none", "width": 4})((3, 32, 32), 10)
    initialise(module, generator(0, "init"))
    biases = [p for name, p in module.named_parameters() if name.endswith("bias") and "body" in name]
    assert len(biases) == 9
    assert not any(bias.any() for bias in biases)


def test_the_default_start_of_a_resnet_is_that_of_version_0_1() -> None:
    module = MODELS.build("resnet8", {"width": 4, "init": "default"})((1, 8, 8), 10)
    initialise(module, generator(0, "init"))
    drawn = {name: p.detach() for name, p in module.named_parameters()}
    assert digest(drawn) == "319d6463b27a6c563ad42d44cf50290ef99536aed17501b5fa2ea32fa3330979"


def test_embeddings_start_from_the_normal_distribution_and_padding_from_zero() -> None:
    layer = nn.Embedding(400, 50, padding_idx=3)
    initialise(layer, generator(0, "init"))
    weight = layer.weight.detach()
    words = torch.cat([weight[:3], weight[4:]])
    assert abs(float(words.mean())) < 0.03
    assert abs(float(words.std()) - 1) < 0.03
    assert not weight[3].any()
