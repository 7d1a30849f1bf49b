"""Fully connected networks."""

from __future__ import annotations

import math
from itertools import pairwise
from typing import Literal, TypeAlias

from torch import nn

from counterpoise.models.classifier import Classifier
from counterpoise.models.model import Builder, model
from counterpoise.models.norms import NormKind, make_norm
from counterpoise.registry.schema import Count, ProperFraction

Activation: TypeAlias = Literal["relu", "elu", "tanh"]
_ACTIVATIONS: dict[Activation, type[nn.Module]] = {"relu": nn.ReLU, "elu": nn.ELU, "tanh": nn.Tanh}


@model("mlp", example=(1, 28, 28))
def mlp(
    hidden: tuple[Count, ...] = (200, 100),
    activation: Activation = "relu",
    norm: NormKind = "none",
    groups: Count = 2,
    dropout: ProperFraction = 0.0,
) -> Builder:
    """Flatten, then linear - norm - activation - dropout for each hidden width; no hidden layer is multinomial regression."""

    def build(input_shape: tuple[int, ...], classes: int) -> nn.Module:
        layers: list[nn.Module] = [nn.Flatten()]
        for inputs, outputs in pairwise((math.prod(input_shape), *hidden)):
            layers += [
                nn.Linear(inputs, outputs),
                make_norm(norm, outputs, groups),
                _ACTIVATIONS[activation](),
                *([nn.Dropout(dropout)] if dropout else []),
            ]
        return Classifier(nn.Sequential(*layers), input_shape, classes)

    return build


@model("mlp_001", paper="FedWCM", example=(1, 28, 28))
def mlp_001() -> Builder:
    """784-200-200-C with ReLU: the paper's "3-layer MLP"."""
    return mlp(hidden=(200, 200))


@model("mlp_004", paper="FedSat", example=(1, 28, 28))
def mlp_004() -> Builder:
    """784-80-60-C with ELU(1) on the hidden layers only."""
    return mlp(hidden=(80, 60), activation="elu")
