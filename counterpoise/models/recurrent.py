"""Torch's own recurrent layers: one after another, so that what is dropped between them can be drawn by a key, and stacked on a GPU."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from contextlib import AbstractContextManager
from typing import Any

import torch
from torch import Tensor, nn

from counterpoise.errors import ConfigError

RECURRENT = (torch.lstm, torch.gru, torch.rnn_tanh, torch.rnn_relu)


def has_recurrent_layers(module: nn.Module) -> bool:
    """Whether a network has one of torch's own recurrent layers."""
    return any(isinstance(layer, nn.RNNBase) for layer in module.modules())


def without_cudnn() -> AbstractContextManager[object]:
    """Within it a network runs on a GPU by torch's own kernels: recurrent layers of cuDNN want all weights at one address, which stacked clients do not have.

    It holds for all layers of the network, in every engine, so that engines agree.
    """
    return torch.backends.cudnn.flags(enabled=False)


def drop_between_layers(
    function: Callable[..., Any],
    drop: Callable[[Tensor, float], Tensor],
    x: Tensor,
    state: Tensor | Sequence[Tensor],
    weights: Sequence[Tensor],
    has_biases: bool | Sequence[Tensor],
    layers: int,
    p: float,
    training: bool,
    bidirectional: bool,
    batch_first: bool,
) -> tuple[Tensor, ...]:
    """What torch's recurrent functions return, the output of every layer but the last dropped with chance p."""
    if not isinstance(has_biases, bool):  # of a packed sequence the lengths come before the state
        raise ConfigError(
            "the model: a packed sequence goes into a recurrent layer with dropout; pad it instead"
        )
    if not training or p == 0 or layers == 1:
        return tuple(function(x, state, weights, has_biases, layers, p, training, bidirectional, batch_first))
    directions, each = 1 + bidirectional, len(weights) // layers
    whole = isinstance(state, Tensor)
    states: Sequence[Tensor] = [state] if isinstance(state, Tensor) else state
    ends: list[Sequence[Tensor]] = []
    for layer in range(layers):
        rows = slice(layer * directions, (layer + 1) * directions)
        own = [part[rows] for part in states]
        x, *end = function(
            drop(x, p) if layer else x,
            own[0] if whole else own,
            weights[layer * each : (layer + 1) * each],
            has_biases,
            1,
            0.0,
            training,
            bidirectional,
            batch_first,
        )
        ends.append(end)
    return x, *(torch.cat(parts) for parts in zip(*ends, strict=True))
