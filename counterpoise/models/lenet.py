"""LeNet-5: LeCun, Bottou, Bengio & Haffner, Gradient-based learning applied to document recognition, 1998."""

from __future__ import annotations

from itertools import pairwise

from torch import nn

from counterpoise.models.classifier import Classifier, at_least, feature_count, image_shape
from counterpoise.models.model import Builder, model


@model("lenet5", paper="LeCun et al. 1998; FedSat", example=(1, 28, 28))
def lenet5() -> Builder:
    """5x5 convolutions 6-16, tanh, average pooling, dense 120-84-C.

    Images below 32x32 are centred in a field of that size, as in the original: 28x28 digits give 400 inputs to 120.
    """
    return lenet("lenet5", 32, maps=(6, 16), dense=(120, 84), activation=nn.Tanh, pool=nn.AvgPool2d)


def lenet(
    name: str,
    smallest: int,
    maps: tuple[int, ...],
    dense: tuple[int, ...],
    activation: type[nn.Module],
    pool: type[nn.Module],
) -> Builder:
    """5x5 convolutions, each halved by a pool, then dense layers; smaller images are centred in smallest x smallest."""

    def build(input_shape: tuple[int, ...], classes: int) -> nn.Module:
        channels, height, width = image_shape(name, input_shape)
        layers: list[nn.Module] = [at_least(smallest, height, width)]
        for inputs, outputs in pairwise((channels, *maps)):
            layers += [nn.Conv2d(inputs, outputs, 5), activation(), pool(2)]
        layers.append(nn.Flatten())
        flat = feature_count(nn.Sequential(*layers), input_shape)
        for inputs, outputs in pairwise((flat, *dense)):
            layers += [nn.Linear(inputs, outputs), activation()]
        return Classifier(nn.Sequential(*layers), input_shape, classes)

    return build
