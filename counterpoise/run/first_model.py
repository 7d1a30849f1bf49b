"""The model before round 0: adapted by the method, drawn or loaded, and frozen where it stays as it is."""

from __future__ import annotations

import logging
from collections.abc import Sequence
from copy import deepcopy
from pathlib import Path

import torch
from torch import nn

from counterpoise.core.method import Method
from counterpoise.errors import ConfigError
from counterpoise.models.heads import Head, with_head
from counterpoise.models.init import initialise
from counterpoise.models.pretrained import freeze, load_weights


def adapt_model(
    method: Method,
    module: nn.Module,
    stream: torch.Generator,
    draw_parameters: bool,
    head: Head | None,
    place: tuple[torch.device, torch.dtype],
) -> nn.Module:
    """A copy of the module in its place, with another head and adapted by the method; layers that are new are always initialised."""
    module = deepcopy(module)
    known = set(module.modules())
    adapted = method.adapt(with_head(module, head)).to(*place)
    if draw_parameters:
        initialise(adapted, stream)
    else:
        for layer in [layer for layer in adapted.modules() if layer not in known]:
            initialise(layer, stream)
    return adapted


def start_model(module: nn.Module, weights: str | Path | None, patterns: Sequence[str]) -> None:
    """Put in the given weights, and freeze parameters; something must be left to train."""
    if weights is not None and (drawn := load_weights(module, Path(weights))):
        logging.getLogger("counterpoise").warning(
            "%s does not have %s: not taken from it", weights, ", ".join(drawn)
        )
    freeze(module, patterns)
    if not any(p.requires_grad for p in module.parameters()):
        raise ConfigError("every parameter of the model is frozen: there is nothing to train")
