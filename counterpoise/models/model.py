"""What a model is: a module with ``features`` and ``head``, and a builder that infers shapes."""

from __future__ import annotations

from collections.abc import Callable

from torch import nn

from counterpoise.core.registry import Registry

Builder = Callable[
    [tuple[int, ...], int], nn.Module
]  # input shape, classes -> a module, parameters not yet drawn


def _load() -> None:
    import counterpoise.models  # noqa: F401


MODELS: Registry[Builder] = Registry("model", _load)
model = MODELS.register
