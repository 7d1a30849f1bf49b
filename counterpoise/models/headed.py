"""Foreign networks cut in two before their last linear layer, whatever its name: features and head."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from copy import deepcopy
from typing import Any

import torch
from torch import Tensor, nn

from counterpoise.errors import ConfigError, listed
from counterpoise.models.draws import KeyedDraws
from counterpoise.models.heads import HEAD
from counterpoise.models.outputs import logits_of

BODY = "body."
TOKENS = 3  # dimensions of scores of tokens: [B, tokens, classes]


class Headed(nn.Module):
    """``forward(x) = head(features(x))`` of a network whose logits are what its layer at `path` gives.

    An identity stands in the layer's place, so that the body gives what the layer would receive: no hooks, and safe under vmap.
    """

    def __init__(self, inner: nn.Module, path: str) -> None:
        super().__init__()
        self.path = path
        head = inner.get_submodule(path)
        self.body = _put(inner, path, nn.Identity())
        self.head = head

    def features(self, x: Tensor) -> Tensor:
        return logits_of(self.body(x))  # [B, F]

    def forward(self, x: Tensor) -> Tensor:
        logits: Tensor = self.head(self.features(x))  # [B, C]
        return logits

    def whole(self) -> nn.Module:
        """The network in one, as it was given; its layers are those of this one."""
        return _put(self.body, self.path, self.head)


def _put(module: nn.Module, path: str, layer: nn.Module) -> nn.Module:
    """The same module, changed: this layer at the path; at the empty path the layer itself."""
    parent, _, name = path.rpartition(".")
    if not path:
        return layer
    setattr(module.get_submodule(parent), name, layer)
    return module


def own_name(module: nn.Module, name: str) -> str:
    """What a parameter or buffer is called in the network as it was given."""
    if not isinstance(module, Headed):
        return name
    if name.startswith(BODY):
        return name.removeprefix(BODY)
    return f"{module.path}.{name.removeprefix(HEAD)}".removeprefix(".")


def named_parameters(module: nn.Module) -> Iterator[tuple[str, nn.Parameter]]:
    """Parameters by their names in the network as it was given."""
    return ((own_name(module, name), parameter) for name, parameter in module.named_parameters())


def whole_network(module: nn.Module) -> nn.Module:
    """The network as it was given, where it is cut in two."""
    return module.whole() if isinstance(module, Headed) else module


def with_found_head(module: nn.Module, x: Tensor, classes: int, why: str) -> Headed:
    """The network, changed: cut before the linear layer whose output, on inputs x [2, ...], is its logits.

    `why`: what is told, with what was looked for, where there is no such layer.
    """
    path = _find(module, x, classes)
    if path is None:
        given = [f"{n} ({m.out_features})" for n, m in module.named_modules() if isinstance(m, nn.Linear)]
        has = f"its linear layers are {listed(given)}" if given else "it has no linear layer"
        raise ConfigError(f"{why}; no linear layer with {classes} outputs gives its logits: {has}")
    return Headed(module, path)


@torch.no_grad()
def _find(module: nn.Module, x: Tensor, classes: int) -> str | None:
    """The path of the layer, by one batch through a copy, and by a second one through the copy cut there."""
    copy = deepcopy(module).eval()
    calls: dict[str, list[Tensor]] = {}
    for name, layer in copy.named_modules():
        if isinstance(layer, nn.Linear) and layer.out_features == classes:
            layer.register_forward_hook(
                lambda layer, given, said, name=name: calls.setdefault(name, []).append(said)
            )
    logits = _said(copy, x)
    once = {name: said[0] for name, said in calls.items() if len(said) == 1}
    found = [name for name, said in once.items() if said is logits]
    if found and logits is not None and _fits(module, found[0], x, logits):
        return found[0]
    tokens = [name for name, said in once.items() if said.dim() == TOKENS]
    return next((name for name in tokens if _fits_tokens(module, name, x)), None)


def _fits_tokens(module: nn.Module, path: str, x: Tensor) -> bool:
    """As `_fits`, of a layer that scores every token, of which the network takes one or a mean, as GPT-2 does.

    Inputs that are all alike would hide what is done between: floats are made to differ.
    """
    if x.is_floating_point():
        x = torch.arange(x.numel(), device=x.device).view(x.shape).cos().to(x.dtype)
    logits = _said(deepcopy(module).eval(), x)
    return logits is not None and _fits(module, path, x, logits, 1e-5)


def _fits(module: nn.Module, path: str, x: Tensor, logits: Tensor, close: float = 0.0) -> bool:
    """Whether the network can be cut there: the head is nowhere else, and both halves give what the whole gave."""
    cut = Headed(deepcopy(module).eval(), path)
    elsewhere = set(cut.body.parameters())
    if any(parameter in elsewhere for parameter in cut.head.parameters()):
        return False
    features = _said(cut.features, x)
    if features is None or features.shape != (len(x), cut.head.in_features):
        return False
    return torch.allclose(cut.head(features), logits, close, close)


def _said(call: Callable[[Tensor], Any], x: Tensor) -> Tensor | None:
    """The logits, with the same draws in every call; None where the network does not run, which its trial tells."""
    try:
        with KeyedDraws(torch.zeros((), dtype=torch.int64, device=x.device)):
            return logits_of(call(x))
    except Exception:  # a foreign network may raise anything
        return None
