"""Numbers of parameters and features, each worked out by hand."""

from __future__ import annotations

from itertools import pairwise

import pytest
from torch import nn

from counterpoise.models.model import MODELS


def _count(name: str, shape: tuple[int, ...], classes: int, **arguments: object) -> int:
    return sum(p.numel() for p in MODELS.build(name, arguments)(shape, classes).parameters())


def _features(name: str, shape: tuple[int, ...], **arguments: object) -> int:
    head = MODELS.build(name, arguments)(shape, 10).head
    assert isinstance(head, nn.Linear)
    return head.in_features


def _dense(*widths: int) -> int:
    """Weights and biases of linear layers."""
    return sum((a + 1) * b for a, b in pairwise(widths))


def _conv(inputs: int, outputs: int, kernel: int) -> int:
    return (inputs * kernel**2 + 1) * outputs


def _resnet(channels: int, classes: int, depths: list[int], stem_kernel: int, width: int = 64) -> int:
    """Convolutions without bias, each with two numbers a channel for its norm; a 1x1 shortcut where a stage widens."""

    def unit(inputs: int, outputs: int, kernel: int) -> int:
        return inputs * outputs * kernel**2 + 2 * outputs

    total = unit(channels, width, stem_kernel)
    for stage, depth in enumerate(depths):
        outputs = width * 2**stage
        inputs = width if stage == 0 else outputs // 2
        total += unit(inputs, outputs, 3) + (2 * depth - 1) * unit(outputs, outputs, 3)
        total += unit(inputs, outputs, 1) if stage else 0
    return total + (width * 2 ** (len(depths) - 1) + 1) * classes


def test_mlps() -> None:
    assert _count("mlp", (1, 28, 28), 10) == _dense(784, 200, 100, 10) == 157_000 + 20_100 + 1_010
    assert _count("mlp_001", (1, 28, 28), 10) == _dense(784, 200, 200, 10) == 157_000 + 40_200 + 2_010
    assert _count("mlp_004", (1, 28, 28), 10) == _dense(784, 80, 60, 10) == 62_800 + 4_860 + 610
    assert _count("mlp", (4, 5), 3, hidden=[7], norm="batch") == _dense(20, 7, 3) + 2 * 7
    assert _count("mlp", (784,), 10, hidden=[]) == 785 * 10


def test_elu_acts_on_the_hidden_layers_only() -> None:
    module = MODELS.build("mlp_004")((784,), 10)
    activations = [layer for layer in module.modules() if isinstance(layer, nn.ELU)]
    assert [a.alpha for a in activations] == [1.0, 1.0]
    assert isinstance(module.head, nn.Linear)


def test_lenet() -> None:
    known = _conv(1, 6, 5) + _conv(6, 16, 5) + _dense(16 * 5 * 5, 120, 84, 10)
    assert known == 156 + 2_416 + 48_120 + 10_164 + 850 == 61_706
    assert _count("lenet5", (1, 28, 28), 10) == _count("lenet5", (1, 32, 32), 10) == known
    assert _count("lenet5", (1, 8, 8), 10) == known
    assert _count("lenet5", (1, 64, 64), 10) == known - 400 * 120 + 16 * 13 * 13 * 120


def test_lenet_uses_tanh_and_average_pooling() -> None:
    kinds = [type(layer) for layer in MODELS.build("lenet5")((1, 28, 28), 10).modules()]
    assert (kinds.count(nn.Tanh), kinds.count(nn.AvgPool2d), kinds.count(nn.MaxPool2d)) == (4, 2, 0)


def test_convnet() -> None:
    assert _features("convnet", (3, 32, 32)) == 128 * 17 * 17 == 36_992
    assert _features("convnet", (1, 28, 28)) == 128 * 15 * 15
    convolutions = _conv(3, 64, 3) + _conv(64, 64, 3) + _conv(64, 128, 3)
    assert convolutions == 1_792 + 36_928 + 73_856
    assert _count("convnet", (3, 32, 32), 100) == convolutions + 36_993 * 100


@pytest.mark.parametrize(
    ("shape", "side"), [((1, 28, 28), 4), ((3, 32, 32), 5), ((1, 8, 8), 1), ((3, 64, 64), 13)]
)
def test_climb_cnn(shape: tuple[int, int, int], side: int) -> None:
    convolutions = _conv(shape[0], 64, 5) + _conv(64, 64, 5)
    assert _count("climb_cnn", shape, 10) == convolutions + _dense(64 * side**2, 384, 192, 10)
    assert _features("climb_cnn", shape) == 192


@pytest.mark.parametrize("norm", ["batch", "group", "layer"])
def test_resnet_18_with_the_cifar_stem(norm: str) -> None:
    assert _count("resnet18", (3, 32, 32), 10, norm=norm) == _resnet(3, 10, [2, 2, 2, 2], 3) == 11_173_962


def test_resnets_with_the_imagenet_stem() -> None:
    assert (
        _count("resnet18", (3, 64, 64), 1000, stem="imagenet")
        == _resnet(3, 1000, [2, 2, 2, 2], 7)
        == 11_689_512
    )
    assert (
        _count("resnet34", (3, 64, 64), 1000, stem="imagenet")
        == _resnet(3, 1000, [3, 4, 6, 3], 7)
        == 21_797_672
    )


def test_resnet_8() -> None:
    stem, blocks = 3 * 64 * 9 + 128, 2 * (64 * 64 * 9 + 128)
    second = 64 * 128 * 9 + 128 * 128 * 9 + 64 * 128 + 3 * 256
    third = 128 * 256 * 9 + 256 * 256 * 9 + 128 * 256 + 3 * 512
    by_hand = stem + blocks + second + third + 257 * 10
    assert _count("resnet8", (3, 32, 32), 10) == _resnet(3, 10, [1, 1, 1], 3) == by_hand == 1_227_594
    assert _features("resnet8", (3, 32, 32)) == 256
    assert _features("resnet8", (3, 32, 32), width=16) == 64


def test_without_norms_a_resnet_has_biases_instead() -> None:
    channels = 64 + 2 * 64 + 3 * 128 + 3 * 256  # outputs of all convolutions of a ResNet-8
    assert _count("resnet8", (3, 32, 32), 10, norm="none") == _resnet(3, 10, [1, 1, 1], 3) - channels


def test_the_adult_network() -> None:
    layers = _dense(104, 32, 16, 8, 2)
    assert layers == 3_360 + 528 + 136 + 18
    assert _count("ffnn", (104,), 2) == layers + 2 * (32 + 16 + 8)
    assert _count("ffnn", (104,), 2, norm="none") == layers


@pytest.mark.parametrize("shape", [(196,), (6, 128)])
def test_cnn_lstm(shape: tuple[int, ...]) -> None:
    channels = shape[0] if len(shape) == 2 else 1
    widths = [channels, 128, 256, 512]
    convolutions = sum((3 * a + 1) * b + 2 * b for a, b in pairwise(widths))
    lstm = 4 * 128 * (512 + 128 + 2)
    assert _count("cnn_lstm", shape, 10) == convolutions + lstm + 129 * 10
