"""Models that start from given weights, and parameters that stay as they are."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from fnmatch import fnmatchcase
from pathlib import Path

import torch
from safetensors import SafetensorError, safe_open
from torch import Tensor, nn

from counterpoise.errors import ConfigError, DataError, legal_words, short
from counterpoise.models.headed import named_parameters, own_name
from counterpoise.models.heads import HEAD, EtfHead


@torch.no_grad()
def load_weights(module: nn.Module, path: Path) -> list[str]:
    """Copy the tensors of a safetensors file into the module; returns those of the head that the file lacks.

    All other names must agree, and the shapes: the first tensor that does not fit is named.
    """
    state = dict(named_parameters(module)) | {own_name(module, name): b for name, b in module.named_buffers()}
    # A file may lack the head: a body trained for other classes.
    given = _read(path, state, own_name(module, HEAD))
    for name, tensor in given.items():
        state[name].copy_(tensor)
    _check_frame(module, path)
    return [name for name in state if name not in given]


def freeze(module: nn.Module, patterns: Sequence[str]) -> nn.Module:
    """The same module, changed: no parameter is trained whose name fits one of the patterns, such as ``body.*``."""
    for name, parameter in named_parameters(module):
        if any(fnmatchcase(name, pattern) for pattern in patterns):
            parameter.requires_grad_(False)
    return module


def check_patterns(module: nn.Module, patterns: Sequence[str]) -> None:
    """Refuse a pattern that fits no parameter: it is misspelled."""
    names = [name for name, _ in named_parameters(module)]
    for pattern in patterns:
        if not any(fnmatchcase(name, pattern) for name in names):
            raise ConfigError(
                f"model.freeze: {short(pattern)} fits no parameter; {legal_words(pattern, names)}"
            )


def _read(path: Path, state: Mapping[str, Tensor], head: str) -> dict[str, Tensor]:
    """The tensors of a file; names and shapes are checked before anything is allocated."""
    try:
        if not path.is_file():
            raise DataError(f"model.weights: {short(path)}: no such file")
        with safe_open(path, framework="pt") as file:
            shapes = {name: tuple(file.get_slice(name).get_shape()) for name in file.keys()}  # noqa: SIM118
            _check_names(path, shapes, state, head)
            given = {name: file.get_tensor(name) for name in shapes}
    except (SafetensorError, OSError) as error:
        words = str(error).splitlines()[0]
        raise DataError(
            f"model.weights: {short(path)} must be a readable safetensors file: {words}"
        ) from None
    _check_numbers(path, given, state)
    return given


def _check_names(
    path: Path, shapes: Mapping[str, tuple[int, ...]], state: Mapping[str, Tensor], head: str
) -> None:
    for name, tensor in state.items():
        if name not in shapes and not name.startswith(head):
            raise ConfigError(f"model.weights: {short(path)} lacks {short(name)}, which the model has")
        if shapes.get(name, tensor.shape) != tensor.shape:
            raise ConfigError(
                f"model.weights: {short(name)} of {short(path)} must have the shape {list(tensor.shape)}, not {list(shapes[name])}"
            )
    for name in shapes:
        if name not in state:
            raise ConfigError(
                f"model.weights: {short(path)} has {short(name)}, which the model does not have; {legal_words(name, state)}"
            )


def _check_numbers(path: Path, given: Mapping[str, Tensor], state: Mapping[str, Tensor]) -> None:
    for name, tensor in given.items():
        if tensor.is_floating_point() != state[name].is_floating_point() or tensor.is_complex():
            kind = str(state[name].dtype).removeprefix("torch.")
            raise ConfigError(
                f"model.weights: {short(name)} of {short(path)} must be {kind}, not {tensor.dtype}"
            )
        if not torch.isfinite(tensor.float()).all():
            raise DataError(f"model.weights: {short(name)} of {short(path)} has a number that is not finite")


def _check_frame(module: nn.Module, path: Path) -> None:
    """A trained head in the file would silently take the place of a fixed one."""
    for name, head in module.named_modules():
        if isinstance(head, EtfHead) and not head.is_frame():
            raise ConfigError(
                f"model.weights: {short(f'{name}.weight')} of {short(path)} is no equiangular tight frame, as model.head = 'etf' needs; leave it out of the file"
            )
