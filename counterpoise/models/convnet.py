"""Plain convolutional networks without normalisation, LeNet-5 (LeCun, Bottou, Bengio & Haffner 1998) among them."""

from __future__ import annotations

from itertools import pairwise

from torch import nn

from counterpoise.models.classifier import Classifier, at_least, feature_count, image_shape
from counterpoise.models.model import Builder, model


@model("convnet", paper="FedBal", example=(3, 32, 32))
def convnet() -> Builder:
    """3x3 convolutions 64-64-128 with ReLU, then one 2x2 max-pool with padding 1: 128 x 17 x 17 features at 32x32."""

    def build(input_shape: tuple[int, ...], classes: int) -> nn.Module:
        channels, _, _ = image_shape("convnet", input_shape)
        layers: list[nn.Module] = []
        for inputs, outputs in pairwise((channels, 64, 64, 128)):
            layers += [nn.Conv2d(inputs, outputs, 3, padding=1), nn.ReLU()]
        body = nn.Sequential(*layers, nn.MaxPool2d(2, padding=1), nn.Flatten())
        return Classifier(body, input_shape, classes)

    return build


@model("climb_cnn", paper="CLIMB (Shen et al. 2022); FedReLa", example=(1, 28, 28))
def climb_cnn() -> Builder:
    """5x5 convolutions 64-64, each with 2x2 max-pooling, dense 384-192-C, leaky ReLU as in the authors' code.

    Images below 16x16 are centred in a field of that size: less would leave nothing to pool.
    """
    return lenet("climb_cnn", 16, maps=(64, 64), dense=(384, 192), activation=nn.LeakyReLU, pool=nn.MaxPool2d)


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
