"""The model before round 0: adapted by the method, drawn or loaded, and frozen where it stays as it is."""

from __future__ import annotations

import logging
from collections.abc import Sequence
from copy import deepcopy
from pathlib import Path

import torch
from torch import nn

from counterpoise.core.method import Method
from counterpoise.errors import ConfigError, short
from counterpoise.models.heads import Head, exchange_head
from counterpoise.models.init import initialise
from counterpoise.models.pretrained import check_patterns, freeze, load_weights
from counterpoise.run.config.experiment import load_experiment
from counterpoise.run.store.folder import RunFolder


def adapt_model(
    method: Method,
    module: nn.Module,
    stream: torch.Generator,
    draw_parameters: bool,
    head: Head | None,
    patterns: Sequence[str],
    place: tuple[torch.device, torch.dtype],
) -> nn.Module:
    """A copy of the module in its place, with another head and adapted by the method; new layers are always initialised.

    Parameters are frozen before and after: a method may refuse a frozen head, or have replaced it.
    """
    module = deepcopy(module)
    known = set(module.modules())
    adapted = method.adapt(freeze(exchange_head(module, head), patterns)).to(*place)
    check_patterns(adapted, patterns)
    for layer in [adapted] if draw_parameters else [one for one in adapted.modules() if one not in known]:
        initialise(layer, stream)
    return freeze(adapted, patterns)


def weights_file(given: str | Path) -> Path:
    """A file as it is; of a run's folder the file of its final weights."""
    path = Path(given)
    if not path.is_dir():
        return path
    folder = RunFolder(path)
    if not folder.holds_run():
        raise ConfigError(
            f"model.weights: {short(path)} must be a safetensors file or the folder of a run, and holds no run"
        )
    if not (folder.summary.exists() and folder.model.exists()):
        raise ConfigError(
            f"model.weights: the run in {short(path)} is not finished and has no final weights; {folder.resume_hint()}"
        )
    if (alone := load_experiment(folder.config).build_method().alone) is not None:
        raise ConfigError(
            f"model.weights: the run in {short(path)} has no final weights: with {alone.name} every client has its own"
        )
    return folder.model


def start_from(module: nn.Module, weights: str | Path | None) -> None:
    """Put in the given weights; something must be left to train."""
    if weights is not None and (others := load_weights(module, weights_file(weights))):
        logging.getLogger("counterpoise").warning(
            "%s does not have %s: not taken from it", weights, ", ".join(others)
        )
    if not any(p.requires_grad for p in module.parameters()):
        raise ConfigError("every parameter of the model is frozen: there is nothing to train")
