"""Last layers that stand in for the linear head."""

from __future__ import annotations

from torch import Tensor, nn
from torch.nn.functional import linear, normalize

from counterpoise.errors import ConfigError


class CosineHead(nn.Linear):
    """``logit_c = <f, w_c> / (|f| |w_c|)``, in [-1, 1]: the normalised classifier that LDAM's margins assume."""

    def __init__(self, in_features: int, out_features: int) -> None:
        super().__init__(in_features, out_features, bias=False)

    def forward(self, input: Tensor) -> Tensor:  # noqa: A002  (the name nn.Linear gives it)
        return linear(normalize(input, dim=1), normalize(self.weight, dim=1))


def replace_head(module: nn.Module, head: nn.Linear) -> nn.Module:
    """The same module, changed: its head is this one, which must read as many features and name as many classes."""
    old = getattr(module, "head", None)
    if not isinstance(old, nn.Linear):
        raise ConfigError(f"replace_head: {type(module).__name__} has no linear layer named 'head'")
    given, legal = (head.in_features, head.out_features), (old.in_features, old.out_features)
    if given != legal:
        raise ConfigError(
            f"replace_head: a head of {given[0]} -> {given[1]} does not fit; legal: {legal[0]} -> {legal[1]}"
        )
    module.head = head
    return module
