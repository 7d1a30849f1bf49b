"""The form every model here has: a body that computes features, and a linear head on top of it."""

from __future__ import annotations

import torch
from torch import Tensor, nn

from counterpoise.errors import ConfigError


class Classifier(nn.Module):
    """``forward(x) = head(features(x))``; the head is as wide as the body's output is for this input shape."""

    def __init__(self, body: nn.Module, input_shape: tuple[int, ...], classes: int) -> None:
        super().__init__()
        self.body = body
        self.head = nn.Linear(feature_count(body, input_shape), classes)

    def features(self, x: Tensor) -> Tensor:
        features: Tensor = self.body(x)  # [B, F]
        return features

    def forward(self, x: Tensor) -> Tensor:
        logits: Tensor = self.head(self.features(x))  # [B, C]
        return logits


def feature_count(body: nn.Module, input_shape: tuple[int, ...]) -> int:
    """F of the [B, F] a body returns, by a forward pass of one empty sample that leaves running statistics as they are."""
    training = body.training
    with torch.no_grad():
        features: Tensor = body.eval()(torch.zeros(1, *input_shape))
    body.train(training)
    return features.shape[1]


def image_shape(model: str, input_shape: tuple[int, ...]) -> tuple[int, int, int]:
    """Channels, height and width, or a ConfigError where the input is not an image."""
    if len(input_shape) != 3:
        raise ConfigError(
            f"model {model}: the input must be an image [channels, height, width], not of shape {list(input_shape)}"
        )
    channels, height, width = input_shape
    return channels, height, width


def at_least(size: int, height: int, width: int) -> nn.ZeroPad2d:
    """Centre smaller images in a field of size x size; larger ones pass as they are."""
    rows, columns = max(size - height, 0), max(size - width, 0)
    return nn.ZeroPad2d((columns // 2, columns - columns // 2, rows // 2, rows - rows // 2))
