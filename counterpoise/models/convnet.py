"""Plain convolutional networks without normalisation."""

from __future__ import annotations

from itertools import pairwise

from torch import nn

from counterpoise.models.classifier import Classifier, image_shape
from counterpoise.models.lenet import lenet
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
