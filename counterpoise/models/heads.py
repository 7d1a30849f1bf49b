"""Last layers: those that replace the linear head, and what a method needs of a model's."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Literal, TypeAlias

import torch
from torch import Tensor, nn
from torch.nn.functional import linear, normalize

from counterpoise.errors import ConfigError

HEAD = "head."  # begins the names of the last layer's parameters
WEIGHT, BIAS = f"{HEAD}weight", f"{HEAD}bias"


class CosineHead(nn.Linear):
    """``logit_c = <f, w_c> / (|f| |w_c|)``, in [-1, 1]: the normalised classifier that LDAM's margins assume."""

    def __init__(self, in_features: int, out_features: int) -> None:
        super().__init__(in_features, out_features, bias=False)

    def forward(self, input: Tensor) -> Tensor:
        return linear(normalize(input, dim=1), normalize(self.weight, dim=1))


class EtfHead(nn.Module):
    """``logit = W f`` with a fixed ``W = sqrt(C / (C - 1)) (I - 11^T / C) U^T``, ``U`` [F, C] orthonormal; no bias.

    All classes are equally far apart, however rare: the simplex equiangular tight frame of Papyan et al., 2020, fixed as in
    Li et al., No Fear of Classifier Biases, 2023 (arXiv:2303.10058). Only the head is theirs: features stay as they are.
    """

    def __init__(self, in_features: int, out_features: int) -> None:
        super().__init__()
        if not 2 <= out_features <= in_features:
            raise ConfigError(
                f"model.head = 'etf' needs 2 classes or more and at least as many features, not {out_features} classes and {in_features} features"
            )
        self.weight = nn.Parameter(torch.zeros(out_features, in_features), requires_grad=False)

    def forward(self, input: Tensor) -> Tensor:
        return linear(input, self.weight)

    @torch.no_grad()
    def draw(self, stream: torch.Generator) -> None:
        """From uniform numbers, which are the same on every machine, in double precision."""
        classes, features = self.weight.shape
        drawn = torch.empty(features, classes, dtype=torch.float32, device=stream.device)
        basis, triangle = torch.linalg.qr(drawn.uniform_(-1, 1, generator=stream).double())
        self.weight.copy_(_frame(classes) @ (basis * triangle.diagonal().sign()).T)  # one sign, so one basis

    def is_frame(self) -> bool:
        """Whether ``W W^T = C / (C - 1) (I - 11^T / C)``, up to single precision."""
        weight = self.weight.double().cpu()
        return bool(((weight @ weight.T - frame_products(len(weight))).abs() < 1e-4).all())


def frame_products(classes: int) -> Tensor:
    """``W W^T`` [C, C] of a frame: 1 on the diagonal, ``-1 / (C - 1)`` elsewhere."""
    return _frame(classes) @ _frame(classes).T


def _frame(classes: int) -> Tensor:
    """``sqrt(C / (C - 1)) (I - 11^T / C)`` [C, C]."""
    return math.sqrt(classes / (classes - 1)) * (torch.eye(classes, dtype=torch.float64) - 1 / classes)


class HeadNeededError(ConfigError):
    """A model does not name its last layer `head`, which a method or a setting needs; it may be found by a batch."""


Head: TypeAlias = Literal["linear", "cosine", "etf"]
HEADS: dict[Head, Callable[[int, int], nn.Module]] = {
    "linear": nn.Linear,
    "cosine": CosineHead,
    "etf": EtfHead,
}


def exchange_head(module: nn.Module, head: Head | None) -> nn.Module:
    """The same module, changed: its head is of this kind; None, or a linear head that is asked for: as it is."""
    if head is None or (head == "linear" and type(getattr(module, "head", None)) is nn.Linear):
        return module
    return replace_head(module, HEADS[head], f"model.head = {head!r}")


def has_features(module: nn.Module) -> bool:
    """Whether a module has `features`, the input of its last layer, and a `head`."""
    return callable(getattr(module, "features", None)) and isinstance(
        getattr(module, "head", None), nn.Module
    )


def with_features(who: str) -> Callable[[nn.Module], nn.Module]:
    """Refuses a model without `features` and `head`, which `who` needs."""

    def adapt(module: nn.Module) -> nn.Module:
        if not has_features(module):
            raise HeadNeededError(
                f"{who} needs a model with `features` and `head`, not {type(module).__name__}"
            )
        return module

    return adapt


def with_head(bias: bool, frozen: bool = False) -> Callable[[nn.Module], nn.Module]:
    """Refuses a model without a last layer of this form, and, unless `frozen`, a frozen one, which is not among the parameters."""
    kinds = (nn.Linear, EtfHead) if frozen else nn.Linear

    def adapt(module: nn.Module) -> nn.Module:
        head = getattr(module, "head", None)
        if not isinstance(head, kinds) or (bias and head.bias is None):
            raise HeadNeededError(
                f"model {type(module).__name__} must have a linear layer `head`{' with a bias' if bias else ''}"
            )
        if not frozen and not all(p.requires_grad for p in head.parameters()):
            raise ConfigError(
                f"model {type(module).__name__} must have a `head` that is trained, not a frozen one"
            )
        return module

    return adapt


def with_plain_head(part: str, bias: bool) -> Callable[[nn.Module], nn.Module]:
    """Refuses a model whose logits are not a trained linear function of its features, to which this part fits a head."""

    def adapt(module: nn.Module) -> nn.Module:
        if not has_features(module) or type(module.head) is not nn.Linear:
            raise HeadNeededError(
                f"{part} fits a linear layer to features: model {type(module).__name__} must have `features` and a plain linear layer `head`"
            )
        return with_head(bias)(module)

    return adapt


def replace_head(
    module: nn.Module, make: Callable[[int, int], nn.Module], who: str = "this method"
) -> nn.Module:
    """The same module, changed: its head is ``make(features, classes)`` with the old head's sizes."""
    old = getattr(module, "head", None)
    if not isinstance(old, nn.Linear):
        raise HeadNeededError(
            f"model {type(module).__name__} has no linear layer named 'head', which {who} replaces"
        )
    module.head = make(old.in_features, old.out_features)
    return module
