"""Residual networks of basic blocks: He, Zhang, Ren & Sun, Deep residual learning for image recognition, 2016."""

from __future__ import annotations

from collections.abc import Callable
from typing import Literal, TypeAlias

from torch import Tensor, nn
from torch.nn.functional import relu

from counterpoise.models.classifier import Classifier, image_shape
from counterpoise.models.init import HeConv2d, Init
from counterpoise.models.model import Builder, model
from counterpoise.models.norms import NormKind, make_norm
from counterpoise.registry.schema import Count

Stem: TypeAlias = Literal["cifar", "imagenet"]
ConvNorm: TypeAlias = Callable[[int, int, int, int], nn.Sequential]  # inputs, outputs, kernel, stride


@model("resnet8", paper="He et al. 2016; FedSat, CReFF", example=(3, 32, 32))
def resnet8(
    stem: Stem = "cifar", norm: NormKind = "batch", groups: Count = 2, width: Count = 64, init: Init = "he"
) -> Builder:
    """One basic block in each of three stages of width, 2 width and 4 width channels: 256 features."""
    return _resnet("resnet8", (1, 1, 1), stem, _conv_norm(norm, groups, init), width)


@model("resnet18", paper="He et al. 2016; FedCGNM, FedWCM, FedBal, FedReLa, FedSat", example=(3, 32, 32))
def resnet18(
    stem: Stem = "cifar", norm: NormKind = "batch", groups: Count = 2, width: Count = 64, init: Init = "he"
) -> Builder:
    """Two basic blocks in each of four stages: 512 features.

    The papers differ: FedCGNM normalises groups and FedWCM keeps the ImageNet stem on 32x32 images.
    """
    return _resnet("resnet18", (2, 2, 2, 2), stem, _conv_norm(norm, groups, init), width)


@model("resnet34", paper="He et al. 2016; FedCGNM, FedWCM, FedReLa", example=(3, 32, 32))
def resnet34(
    stem: Stem = "cifar", norm: NormKind = "batch", groups: Count = 2, width: Count = 64, init: Init = "he"
) -> Builder:
    """3, 4, 6 and 3 basic blocks in four stages: 512 features."""
    return _resnet("resnet34", (3, 4, 6, 3), stem, _conv_norm(norm, groups, init), width)


def _resnet(name: str, depths: tuple[int, ...], stem: Stem, conv_norm: ConvNorm, width: int) -> Builder:
    def build(input_shape: tuple[int, ...], classes: int) -> nn.Module:
        channels, _, _ = image_shape(name, input_shape)
        blocks = _blocks(conv_norm, depths, width)
        body = nn.Sequential(_stem(conv_norm, stem, channels, width), *blocks, _GlobalAverage())
        return Classifier(body, input_shape, classes)

    return build


class _GlobalAverage(nn.Module):
    """``AdaptiveAvgPool2d(1)`` and flat; that one has no batching rule for vmap and warns in every run."""

    def forward(self, x: Tensor) -> Tensor:
        return x.mean((-2, -1))


def _conv_norm(norm: NormKind, groups: int, init: Init) -> ConvNorm:
    kind = HeConv2d if init == "he" else nn.Conv2d

    def layers(inputs: int, outputs: int, kernel: int, stride: int) -> nn.Sequential:
        bias = norm == "none"  # a norm has a bias of its own
        conv = kind(inputs, outputs, kernel, stride, padding=kernel // 2, bias=bias)
        return nn.Sequential(conv, make_norm(norm, outputs, groups))

    return layers


def _stem(conv_norm: ConvNorm, stem: Stem, channels: int, width: int) -> nn.Sequential:
    if stem == "cifar":
        return nn.Sequential(conv_norm(channels, width, 3, 1), nn.ReLU())
    return nn.Sequential(conv_norm(channels, width, 7, 2), nn.ReLU(), nn.MaxPool2d(3, stride=2, padding=1))


def _blocks(conv_norm: ConvNorm, depths: tuple[int, ...], width: int) -> list[nn.Module]:
    blocks: list[nn.Module] = []
    inputs = width
    for stage, depth in enumerate(depths):
        outputs = width * 2**stage
        for place in range(depth):
            stride = 2 if stage > 0 and place == 0 else 1
            blocks.append(BasicBlock(conv_norm, inputs, outputs, stride))
            inputs = outputs
    return blocks


class BasicBlock(nn.Module):
    """``relu(residual(x) + shortcut(x))``; the shortcut is a 1x1 convolution where the shape changes, else x."""

    activated = True  # what it returns is an activation, though no layer of its own computes it

    def __init__(self, conv_norm: ConvNorm, inputs: int, outputs: int, stride: int) -> None:
        super().__init__()
        first, second = conv_norm(inputs, outputs, 3, stride), conv_norm(outputs, outputs, 3, 1)
        self.residual = nn.Sequential(first, nn.ReLU(), second)
        same_shape = stride == 1 and inputs == outputs
        self.shortcut = nn.Identity() if same_shape else conv_norm(inputs, outputs, 1, stride)

    def forward(self, x: Tensor) -> Tensor:
        return relu(self.residual(x) + self.shortcut(x))
