"""What a model is: a module with ``features`` and ``head``, and a builder that infers shapes."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import torch
from torch import nn
from torch.overrides import TorchFunctionMode

from counterpoise.errors import ConfigError
from counterpoise.registry.registry import Registry
from counterpoise.system.capacity import check_fits

# Input shape, classes -> a module, parameters not yet drawn
Builder = Callable[[tuple[int, ...], int], nn.Module]


MODELS: Registry[Builder] = Registry("model", ["counterpoise.models"])
model = MODELS.register

COPIES = 4  # of a model in training: the module, the server's, a client's and its change
FACTORIES = (torch.empty, torch.zeros, torch.ones, torch.full, torch.rand, torch.randn)


class _Measured(TorchFunctionMode):
    """Adds up the bytes that a builder allocates, and refuses more than fits before they are allocated."""

    def __init__(self, name: str) -> None:
        super().__init__()
        self.name, self.total = name, 0

    def __torch_function__(
        self, func: Any, types: Any, args: tuple[Any, ...] = (), kwargs: dict[str, Any] | None = None
    ) -> Any:
        given = kwargs or {}
        if func in FACTORIES:
            asked = func(*args, **given | {"device": "meta"})  # has a shape and no memory
            self.total += asked.numel() * asked.element_size()
            check_fits(COPIES * self.total, f"model {self.name}: in training it")
        return func(*args, **given)


def build_model(name: str, build: Builder, input_shape: tuple[int, ...], classes: int) -> nn.Module:
    """The model of a builder, where it fits into memory; errors begin with its `name`."""
    try:
        with _Measured(name):
            return build(input_shape, classes)
    except (RuntimeError, TypeError, OverflowError) as error:
        if "overflow" not in str(error).lower():
            raise
        raise ConfigError(f"model {name}: the size of a layer must fit into 64 bits") from None
