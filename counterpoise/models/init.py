"""First parameters from a given stream: torch's default distributions, or He's, without torch's global generator."""

from __future__ import annotations

import math
from collections.abc import Iterator
from typing import Literal, Protocol, TypeAlias, runtime_checkable

import torch
from torch import Tensor, nn

from counterpoise.errors import ConfigError, short
from counterpoise.models.norms import BatchNorm
from counterpoise.models.tabular import LSTM

Init: TypeAlias = Literal["he", "default"]
_WEIGHTED = (nn.Linear, nn.Conv1d, nn.Conv2d)
_NORMS = (BatchNorm, nn.GroupNorm, nn.LayerNorm, nn.BatchNorm1d, nn.BatchNorm2d)


class HeConv2d(nn.Conv2d):
    """A convolution that starts from He's distribution: He et al., Delving deep into rectifiers, 2015."""


@runtime_checkable
class DrawsItself(Protocol):
    """A layer with a rule of its own for its first parameters."""

    def draw(self, stream: torch.Generator) -> None: ...


@torch.no_grad()
def initialise(module: nn.Module, generator: torch.Generator) -> None:
    """Draw every parameter: ``U(-1/sqrt(fan in), 1/sqrt(fan in))``, LSTM by its hidden size, norms to weight 1 and bias 0.
    Embeddings: ``N(0, 1)``, and 0 for the word of padding.

    He's convolutions: weight ``N(0, 2 / fan out)`` with fan out = outputs x height x width of the kernel, bias 0.

    A layer that has a method ``draw(stream)`` draws its own parameters.

    Layers draw in the order of ``named_modules``, always in float32 on the generator's device, so a model starts from
    the same numbers whatever its own type and device.
    """
    for path, layer in _layers_with_parameters(module):
        if isinstance(layer, DrawsItself):
            layer.draw(generator)
        elif isinstance(layer, _NORMS):
            _reset_norm(layer)
        elif isinstance(layer, HeConv2d):
            _draw_he(layer, generator)
        elif isinstance(layer, nn.Embedding):
            _draw_embedding(layer, generator)
        else:
            _draw_uniform(layer, _bound(path, layer), generator)


def _layers_with_parameters(module: nn.Module) -> Iterator[tuple[str, nn.Module]]:
    for path, layer in module.named_modules():
        if next(layer.parameters(recurse=False), None) is not None:
            yield path, layer


def _bound(path: str, layer: nn.Module) -> float:
    if isinstance(layer, LSTM):
        return 1 / math.sqrt(layer.hidden)
    if isinstance(layer, _WEIGHTED):
        return 1 / math.sqrt(layer.weight[0].numel())
    known = ", ".join(kind.__name__ for kind in (*_WEIGHTED, LSTM, nn.Embedding, *_NORMS))
    raise ConfigError(
        f"initialise: no rule for {type(layer).__name__} at {short(path)}; it must be one of {known}"
    )


def _reset_norm(layer: nn.Module) -> None:
    for name, parameter in layer.named_parameters(recurse=False):
        parameter.fill_(1.0 if name == "weight" else 0.0)


def _draw_he(layer: HeConv2d, generator: torch.Generator) -> None:
    fan_out = layer.weight[:, 0].numel()
    drawn = torch.empty(layer.weight.shape, dtype=torch.float32, device=generator.device)
    layer.weight.copy_(drawn.normal_(0.0, math.sqrt(2 / fan_out), generator=generator))
    if layer.bias is not None:
        layer.bias.zero_()


def _draw_embedding(layer: nn.Embedding, generator: torch.Generator) -> None:
    drawn = torch.empty(layer.weight.shape, dtype=torch.float32, device=generator.device)
    layer.weight.copy_(drawn.normal_(generator=generator))
    if layer.padding_idx is not None:
        layer.weight[layer.padding_idx].zero_()


def _draw_uniform(layer: nn.Module, bound: float, generator: torch.Generator) -> None:
    for parameter in layer.parameters(recurse=False):
        parameter.copy_(_uniform(parameter.shape, bound, generator))


def _uniform(shape: torch.Size, bound: float, generator: torch.Generator) -> Tensor:
    drawn = torch.empty(shape, dtype=torch.float32, device=generator.device)
    return drawn.uniform_(-bound, bound, generator=generator)
