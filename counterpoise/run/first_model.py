"""The model before round 0: adapted by the method, drawn or loaded, and frozen where it stays as it is."""

from __future__ import annotations

import logging
from collections.abc import Callable, Mapping, Sequence
from copy import deepcopy
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Any, NamedTuple

import torch
from torch import Tensor, nn

from counterpoise.client.trial import (
    SAMPLES,
    Trial,
    UnfitInputError,
    example_of,
    refuse_lazy,
    takes,
    try_batch,
)
from counterpoise.core.method import Method
from counterpoise.core.rng import generator, key_bits
from counterpoise.data.dataset import whole_scaling
from counterpoise.data.federation import Federation
from counterpoise.errors import ConfigError, short
from counterpoise.models.foreign import build_foreign, is_foreign
from counterpoise.models.headed import with_found_head
from counterpoise.models.heads import Head, HeadNeededError, exchange_head
from counterpoise.models.init import initialise
from counterpoise.models.model import MODELS, build_model
from counterpoise.models.pretrained import check_patterns, freeze, load_weights
from counterpoise.run.config.experiment import load_experiment
from counterpoise.run.store.folder import RunFolder


class Start(NamedTuple):
    """How the model begins: [model] of a config, and whether parameters are drawn for the seed."""

    draw_parameters: bool = False
    weights: str | Path | None = None
    freeze: Sequence[str] = ()
    head: Head | None = None


def first_module(
    method: Method,
    model: str | nn.Module,
    federation: Federation,
    dtype: torch.dtype,
    seed: int,
    start: Start,
) -> nn.Module:
    """A model given by name starts from parameters drawn for the seed; a module as it is, unless they are to be drawn."""
    classes, place = len(federation.classes), (federation.train.x.device, dtype)
    if isinstance(model, str):
        model, drawn = build_named_model(model, {}, federation.input_shape, classes, seed)
        start = start._replace(draw_parameters=drawn)
    refuse_lazy(model)
    example = partial(first_inputs, federation, place)
    module = adapt_model(method, model, start, generator(seed, "init"), place, example, classes)
    start_from(module, start.weights)
    return module


def build_named_model(
    name: str, arguments: Mapping[str, Any], shape: tuple[int, ...], classes: int, seed: int
) -> tuple[nn.Module, bool]:
    """The model of this name, and whether its parameters are still to be drawn: a foreign one comes with its own."""
    if not is_foreign(name):
        return build_model(name, MODELS.build(name, arguments), shape, classes), True
    key = key_bits(seed, "foreign model")
    return build_model(
        name, lambda shape, classes: build_foreign(name, arguments, shape, classes, key), shape, classes
    ), False


def adapt_model(
    method: Method,
    module: nn.Module,
    start: Start,
    stream: torch.Generator,
    place: tuple[torch.device, torch.dtype],
    example: Callable[[nn.Module], Tensor],
    classes: int,
) -> nn.Module:
    """A copy of the module in its place, with another head and adapted by the method; new layers are always initialised.

    Parameters are frozen before and after: a method may refuse a frozen head, or have replaced it. Where a head is needed
    and none has that name, the last layer is looked for by the example, which gives inputs [2, ...].
    """

    def adapt(module: nn.Module) -> nn.Module:
        return method.adapt(freeze(exchange_head(module, start.head), start.freeze)).to(*place)

    own = _copied(module)
    known = set(own.modules())
    try:
        adapted = adapt(own)
    except HeadNeededError as error:
        own = deepcopy(module).to(*place)
        own = with_found_head(own, example(own), classes, str(error))
        known = set(own.modules())
        adapted = adapt(own)
    check_patterns(adapted, start.freeze)
    for layer in (
        [adapted] if start.draw_parameters else [one for one in adapted.modules() if one not in known]
    ):
        initialise(layer, stream)
    return freeze(adapted, start.freeze)


def _copied(module: nn.Module) -> nn.Module:
    try:
        return deepcopy(module)
    except RuntimeError as error:
        if "graph leaves" not in str(error):
            raise
        raise ConfigError(
            "model: it keeps tensors that were computed from parameters and cannot be copied, as torch.nn.utils.weight_norm does; take torch.nn.utils.parametrizations.weight_norm"
        ) from error


def weights_file(given: str | Path) -> Path:
    """A file as it is; of a run's folder the file of its final weights."""
    path = Path(given)
    try:
        if not path.is_dir():
            return path
    except OSError as error:  # too long for a name
        raise ConfigError(f"model.weights: {short(path)} cannot be read: {error.strerror}") from None
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


def first_inputs(
    federation: Federation, place: tuple[torch.device, torch.dtype], module: nn.Module
) -> Tensor:
    """Inputs [2, ...] by which the last layer of a foreign model is looked for: floats where it takes them, else whole numbers."""
    if not federation.whole:
        return example_of(federation.input_shape, place)
    extremes = federation.extremes()[:SAMPLES].to(place[0])
    scaled = extremes if federation.scaling.whole else federation.scaling(extremes)
    return scaled if takes(module, scaled) else extremes


def fit_inputs(
    module: nn.Module, federation: Federation, dtype: torch.dtype, batch_size: int
) -> tuple[Federation, Trial]:
    """The federation with inputs of the kind that the model takes, and what a batch of them tells of the model.

    Whole numbers become floats where the model takes floats; one with an embedding does not, and gets them as they are.
    """
    place, classes, count = federation.train.x.device, len(federation.classes), min(SAMPLES, batch_size)
    if not federation.whole and federation.scaling.whole:
        raise ConfigError(
            f"inputs must be whole numbers, as their scaling says, not {federation.train.x.dtype}"
        )
    if not federation.whole:
        example = torch.zeros(count, *federation.input_shape, dtype=dtype, device=place)
        return federation, try_batch(module, example, classes)
    extremes = federation.extremes()[:count]  # on the CPU: on a GPU an id that is too large ends the process
    kept = replace(federation, scaling=whole_scaling().to(place))
    if federation.scaling.whole:
        return kept, _try_whole(module, extremes, classes)
    try:
        scaled = federation.scaling.to(torch.device("cpu"))(extremes)
        return federation, try_batch(module, scaled, classes)
    except UnfitInputError as refused:
        return kept, _try_whole(module, extremes, classes, f"{refused}; and ")


def _try_whole(module: nn.Module, extremes: Tensor, classes: int, before: str = "") -> Trial:
    try:
        return try_batch(module, extremes, classes)
    except UnfitInputError as refused:
        low, high = extremes.aminmax()
        raise UnfitInputError(f"{before}{refused} (whole numbers from {int(low)} to {int(high)})") from None
