"""One batch through a model before round 0: what does not fit is told in one line, and what it draws is known."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from copy import deepcopy
from typing import Any, NamedTuple

import torch
from torch import Tensor, nn
from torch.nn.parameter import UninitializedParameter
from torch.utils._python_dispatch import TorchDispatchMode

from counterpoise.errors import ConfigError, short
from counterpoise.models.draws import KeyedDraws
from counterpoise.models.heads import has_features
from counterpoise.models.outputs import logits_of

SAMPLES = 2  # a norm over a batch of one has nothing to compare


class UnfitInputError(ConfigError):
    """A model cannot take inputs of this shape or type."""


class Trial(NamedTuple):
    """What one batch tells of a model."""

    draws: bool = False  # it draws in training
    mixes: bool = False  # what it gives for a sample in training, or keeps of it, goes by others of the batch


class _GlobalDraws(TorchDispatchMode):  # type: ignore[no-untyped-call]
    """Finds operations that draw from torch's global stream."""

    def __init__(self) -> None:
        super().__init__()  # type: ignore[no-untyped-call]
        self.found: list[str] = []

    def __torch_dispatch__(
        self,
        func: Any,
        types: Sequence[type],
        args: Sequence[Any] = (),
        kwargs: Mapping[str, Any] | None = None,
    ) -> Any:
        kwargs = kwargs or {}
        if torch.Tag.nondeterministic_seeded in func.tags and rate_of(func, args, kwargs) != 0:
            self.found.append(str(func).removeprefix("aten.").split(".")[0])
        return func(*args, **kwargs)


def rate_of(func: Any, args: Sequence[Any], kwargs: Mapping[str, Any]) -> Any:
    """How much an operation drops, where it says so: attention, and recurrent layers on a GPU, are marked as draws even where they drop nothing."""
    for place, argument in enumerate(func._schema.arguments):
        if argument.name in ("dropout_p", "dropout"):
            return args[place] if place < len(args) else kwargs.get(argument.name, argument.default_value)
    return None


def refuse_lazy(module: nn.Module) -> None:
    """A model whose parameters have no shape yet cannot be copied, drawn or sent."""
    for name, parameter in module.named_parameters():
        if isinstance(parameter, UninitializedParameter):
            raise ConfigError(
                f"model layer {short(name)} is lazy and has no shape yet: call the model on a batch once before"
            )


def example_of(shape: Sequence[int], place: tuple[torch.device, torch.dtype]) -> Tensor:
    """Inputs [2, ...] to try a model on."""
    device, dtype = place
    return torch.zeros(SAMPLES, *shape, dtype=dtype, device=device)


def try_batch(module: nn.Module, x: Tensor, classes: int) -> Trial:
    """What inputs x [2, ...] tell of a model; one that does not fit them or the classes is refused."""
    keyed, stray = KeyedDraws(torch.zeros((), dtype=torch.int64, device=x.device)), _GlobalDraws()
    copied = deepcopy(module).to(x.device)
    with torch.no_grad(), keyed, stray:
        outputs = _said(copied.train(), x)
    logits = logits_of(outputs)
    if stray.found:
        raise ConfigError(
            f"model: its forward pass calls {stray.found[0]}, which draws from torch's global stream, so that a run could not be repeated; dropout layers, F.dropout and bernoulli_ are drawn by the run's seed"
        )
    if not logits.is_floating_point() or tuple(logits.shape) != (len(x), classes):
        raise ConfigError(
            f"model: a batch {list(x.shape)} must give floating-point logits [{len(x)}, {classes}], one for each of the {classes} classes, not {logits.dtype} {list(logits.shape)}"
        )
    _check_features(copied.eval(), x)
    return Trial(keyed.count > 0, _mixes(module, _unlike(x)))


@torch.no_grad()
def takes(module: nn.Module, x: Tensor) -> bool:
    """Whether inputs of this shape and type go through the model at all."""
    try:
        _said(deepcopy(module).eval(), x)
    except UnfitInputError:
        return False
    return True


@torch.no_grad()
def _check_features(module: nn.Module, x: Tensor) -> None:
    """A model with `features` and `head` is trained as one after the other: that must be what it is."""
    if not has_features(module):
        return
    x = _unlike(x)
    whole = logits_of(module(x))
    try:
        features: Any = module.features(x)  # type: ignore[operator]
        split: Tensor = module.head(features)  # type: ignore[operator]
        alike = features.shape[:1] == x.shape[:1] and torch.allclose(split, whole, 1e-2, 1e-3, equal_nan=True)
    except (RuntimeError, TypeError, ValueError, AttributeError):
        alike = False
    if not alike:
        raise ConfigError(
            f"model {type(module).__name__}: head(features(x)) must be what the model gives for x, since it is trained so; let `features` do all that comes before `head`, or name one of them otherwise"
        )


def _unlike(x: Tensor) -> Tensor:
    """Inputs of this form that differ; whole numbers as they are, since others may be out of a vocabulary."""
    if not x.is_floating_point():
        return x
    return torch.arange(x.numel(), device=x.device).view(x.shape).cos().to(x.dtype)


def _mixes(module: nn.Module, x: Tensor) -> bool:
    """Whether in training the first sample gives something else, or something else is kept, where the others are like it."""
    try:
        passes = [_trained(module, rows) for rows in (x, x[:1].expand_as(x).contiguous())]
    except UnfitInputError:
        return False
    same = (torch.allclose(a, b, 1e-4, 1e-5, equal_nan=True) for a, b in zip(*passes, strict=True))
    return not all(same)


@torch.no_grad()
def _trained(module: nn.Module, x: Tensor) -> list[Tensor]:
    """What a pass in training gives for the first sample, and what the model then keeps."""
    copied = deepcopy(module).to(x.device).train()
    with KeyedDraws(torch.zeros((), dtype=torch.int64, device=x.device)):
        first = logits_of(_said(copied, x))[0]
    return [first, *(kept for kept in copied.buffers() if kept.is_floating_point())]


def _said(module: Callable[[Tensor], Any], x: Tensor) -> Any:
    try:
        return module(x)
    except ConfigError:
        raise
    except Exception as error:
        said = str(error).strip().splitlines()
        raise UnfitInputError(
            f"model: a batch {list(x.shape)} of {x.dtype} cannot go through it: {type(error).__name__}: {said[0] if said else ''}"
        ) from error
