"""Last layers that replace the linear head."""

from __future__ import annotations

from collections.abc import Callable

from torch import Tensor, nn
from torch.nn.functional import linear, normalize

from counterpoise.errors import ConfigError


class CosineHead(nn.Linear):
    """``logit_c = <f, w_c> / (|f| |w_c|)``, in [-1, 1]: the normalised classifier that LDAM's margins assume."""

    def __init__(self, in_features: int, out_features: int) -> None:
        super().__init__(in_features, out_features, bias=False)

    def forward(self, input: Tensor) -> Tensor:
        return linear(normalize(input, dim=1), normalize(self.weight, dim=1))


def has_features(module: nn.Module) -> bool:
    """Whether a module has `features`, the input of its last layer, and a `head`."""
    return callable(getattr(module, "features", None)) and isinstance(
        getattr(module, "head", None), nn.Module
    )


def replace_head(module: nn.Module, make: Callable[[int, int], nn.Module]) -> nn.Module:
    """The same module, changed: its head is ``make(features, classes)`` with the old head's sizes."""
    old = getattr(module, "head", None)
    if not isinstance(old, nn.Linear):
        raise ConfigError(
            f"model {type(module).__name__} has no linear layer named 'head', which this method replaces"
        )
    module.head = make(old.in_features, old.out_features)
    return module
