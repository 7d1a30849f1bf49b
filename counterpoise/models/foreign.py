"""Models of other packages by name: ``timm:NAME``, ``torchvision:NAME`` and ``package.module:function``."""

from __future__ import annotations

import hashlib
import importlib
import importlib.metadata
import os
import re
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import torch
from torch import nn

from counterpoise.errors import ConfigError, legal_words, short

TRUSTED = "COUNTERPOISE_TRUSTED_MODELS"  # packages, by commas, whose models may be built from a run's folder
IMAGE_DIMENSIONS = 3  # channels, height, width
FORM = re.compile(r"[A-Za-z_]\w*(\.[A-Za-z_]\w*)*:\S+")


def is_foreign(name: str) -> bool:
    """Whether a model's name says where its code is, instead of being one of ours or of a plugin."""
    return ":" in name


def check_form(name: str) -> None:
    """Refuse a name that cannot be one; nothing is imported."""
    if not FORM.fullmatch(name):
        raise ConfigError(
            f"model.name must be a model of `counterpoise ls models`, 'timm:NAME', 'torchvision:NAME' or 'package.module:function', not {short(name)}"
        )


def check_trusted(name: str) -> None:
    """Refuse code that the config of a run's folder names, unless the user trusts its package: folders are passed on."""
    package = name.partition(":")[0].partition(".")[0]
    if is_foreign(name) and package not in os.environ.get(TRUSTED, "").split(","):
        raise ConfigError(
            f"model {short(name)}: the run's config names code of the package {short(package)}; if you trust it, set {TRUSTED}={package}"
        )


def code_version(name: str) -> dict[str, str]:
    """The version of the package that a model's code is of; of a module outside packages the beginning of its file's SHA-256."""
    if not is_foreign(name):
        return {}
    module = name.partition(":")[0]
    package = module.partition(".")[0]
    for distribution in importlib.metadata.packages_distributions().get(package, ()):
        return {distribution: importlib.metadata.version(distribution)}
    file = getattr(_imported(name, module), "__file__", None)
    return {module: hashlib.sha256(Path(file).read_bytes()).hexdigest()[:16]} if file else {}


def build_foreign(
    name: str, arguments: Mapping[str, Any], input_shape: tuple[int, ...], classes: int, seed: int
) -> nn.Module:
    """The model, with the first parameters that its own code draws or loads; the seed is that of its draws.

    A function gets the arguments and nothing else; timm and torchvision also the number of classes, and timm that of channels.
    """
    check_form(name)
    origin, _, function = name.partition(":")
    known: dict[str, Any] = {}
    if origin == "timm":
        channels = {"in_chans": input_shape[0]} if len(input_shape) == IMAGE_DIMENSIONS else {}
        make, known = _of_timm(name, function), {"num_classes": classes, **channels}
    elif origin == "torchvision":
        make, known = _of_torchvision(name, function), {"num_classes": classes}
    else:
        make = _function(name, origin, function)
    return _made(name, make, known | dict(arguments), seed)


def _of_timm(name: str, model: str) -> Callable[..., Any]:
    timm = _imported(name, "timm")
    return lambda **given: timm.create_model(model, **given)


def _of_torchvision(name: str, model: str) -> Callable[..., Any]:
    models = _imported(name, "torchvision.models")
    return lambda **given: models.get_model(model, **given)


def _function(name: str, module: str, function: str) -> Callable[..., Any]:
    """A function or a class of a module."""
    home = _imported(name, module)
    found = getattr(home, function, None)
    if not callable(found):
        public = [word for word, value in vars(home).items() if callable(value) and not word.startswith("_")]
        hint = f"; {legal_words(function, public)}" if public else ""
        raise ConfigError(f"model {short(name)}: {module} has no function {short(function)}{hint}")
    return found  # type: ignore[no-any-return]


def _imported(name: str, module: str) -> Any:
    try:
        return importlib.import_module(module)
    except ModuleNotFoundError as error:
        raise ConfigError(
            f"model {short(name)} needs the module {short(error.name)}, which is not installed or not on Python's path"
        ) from None
    except Exception as error:  # a module may raise anything when it is imported
        hint = "; torch and torchvision must be of one build" if "torchvision::" in str(error) else ""
        raise ConfigError(
            f"model {short(name)}: {module} cannot be imported: {_words(error)}{hint}"
        ) from error


def _made(name: str, make: Callable[..., Any], given: Mapping[str, Any], seed: int) -> nn.Module:
    try:
        with _draws_of(seed):
            made = make(**given)
    except ConfigError:
        raise
    except Exception as error:  # a foreign function may raise anything
        raise ConfigError(f"model {short(name)} cannot be built: {_words(error)}") from error
    if not isinstance(made, nn.Module):
        raise ConfigError(f"model {short(name)} must give an nn.Module, not {type(made).__name__}")
    return made


@contextmanager
def _draws_of(seed: int) -> Iterator[None]:
    """Within it torch's global stream on the CPU is that of the seed; afterwards it is where it was.

    Foreign layers draw their first parameters from it when they are made, and take no other: the one place where it is used.
    """
    with torch.random.fork_rng(devices=[]):
        torch.default_generator.manual_seed(seed)
        yield


def _words(error: Exception) -> str:
    said = str(error).strip().splitlines()
    return f"{type(error).__name__}: {said[0] if said else ''}"
