"""Layers that draw (dropout in all its forms, stochastic depth), from a key instead of torch's global stream.

A draw depends only on the key of the step, on its place in the forward pass and on the index of the number: so a run repeats bit
for bit, every engine draws the same, and stacked clients draw apart, since under ``vmap`` each has a key of its own.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from types import FunctionType
from typing import Any, TypeAlias

import torch
import torch.nn.functional as F  # noqa: N812
from torch import Tensor
from torch.overrides import TorchFunctionMode

from counterpoise.models.recurrent import RECURRENT, drop_between_layers

_BITS = 0xFFFFFFFF
_STRIDE = 0x9E3779B1  # the golden ratio of 2^32: places of a pass lie far apart
_SELU = -1.7580993408473766  # what SELU tends to below zero: alpha dropout sets numbers to it
Draw: TypeAlias = Callable[[Sequence[int]], Tensor]  # shape -> numbers in [0, 1)


def uniform(key: Tensor, place: int, shape: Sequence[int]) -> Tensor:
    """Numbers in [0, 1), 24 bits each, by hashing key, place and index; of a key [], and so of keys [K] under ``vmap``."""
    low, high = key & _BITS, key >> 32
    first = _mix((low + place * _STRIDE) & _BITS)
    second = _mix((high & _BITS) ^ first)
    index = torch.arange(math.prod(shape), device=key.device)
    bits = _mix((_mix(index ^ first) + second) & _BITS)
    return ((bits >> 8) * 2.0**-24).view(tuple(shape))


def _mix(bits: Tensor) -> Tensor:
    """A permutation of 32 bits in which every bit depends on all; both factors are below 2^31, so that nothing overflows."""
    bits = ((bits ^ (bits >> 15)) * 0x2C1B3C6D) & _BITS
    bits = ((bits ^ (bits >> 12)) * 0x297A2D39) & _BITS
    return bits ^ (bits >> 15)


class KeyedDraws(TorchFunctionMode):
    """Within it torch's functions that drop or draw take their numbers from a key."""

    def __init__(self, key: Tensor) -> None:
        super().__init__()
        self._key = key
        self.count = 0  # draws so far

    def _uniform(self, shape: Sequence[int]) -> Tensor:
        self.count += 1
        return uniform(self._key, self.count, shape)

    def __torch_function__(
        self,
        func: Callable[..., Any],
        types: Sequence[type],
        args: Sequence[Any] = (),
        kwargs: Mapping[str, Any] | None = None,
    ) -> Any:
        kwargs = kwargs or {}
        if func in _RULES:
            return _RULES[func](self._uniform, *args, **kwargs)
        if func in RECURRENT:
            return drop_between_layers(func, lambda x, p: _drop(self._uniform, x, p), *args, **kwargs)
        if func is F.multi_head_attention_forward:
            with self:  # what it drops inside comes here too
                return _attention(*args, **kwargs)
        return func(*args, **kwargs)


def _open(function: FunctionType) -> Callable[..., Any]:
    """A function of torch without its check for modes like ours, which would hand the call back for ever."""
    unchecked = {**function.__globals__, "has_torch_function": lambda tensors: False}
    return FunctionType(
        function.__code__, unchecked, function.__name__, function.__defaults__, function.__closure__
    )


_attention = _open(F.multi_head_attention_forward)  # type: ignore[arg-type]


def _drop(draw: Draw, x: Tensor, p: float = 0.5, training: bool = True, inplace: bool = False) -> Tensor:
    """Numbers set to 0 with chance p, the others divided by 1 - p."""
    return _masked(draw, x, x.shape, p, training)


def _drop_channels(
    draw: Draw, x: Tensor, p: float = 0.5, training: bool = True, inplace: bool = False
) -> Tensor:
    """Whole channels of [B, channels, ...]."""
    return _masked(draw, x, _channels(x), p, training)


def _channels(x: Tensor) -> Sequence[int]:
    return *x.shape[:2], *(1 for _ in x.shape[2:])


def _masked(draw: Draw, x: Tensor, shape: Sequence[int], p: float, training: bool) -> Tensor:
    if not training or p == 0:
        return x
    kept = draw(shape) >= p
    return x * (kept.to(x.dtype) / max(1 - p, 2.0**-24))


def _alpha_drop(
    draw: Draw, x: Tensor, p: float = 0.5, training: bool = False, inplace: bool = False
) -> Tensor:
    return _alpha_masked(draw, x, x.shape, p, training)


def _alpha_drop_channels(
    draw: Draw, x: Tensor, p: float = 0.5, training: bool = False, inplace: bool = False
) -> Tensor:
    return _alpha_masked(draw, x, _channels(x), p, training)


def _alpha_masked(draw: Draw, x: Tensor, shape: Sequence[int], p: float, training: bool) -> Tensor:
    """Numbers set to SELU's limit with chance p, then moved and scaled so that mean and variance stay."""
    if not training or p == 0:
        return x
    kept = (draw(shape) >= p).to(x.dtype)
    scale = 1 / math.sqrt(max((1 - p) * (1 + p * _SELU**2), 2.0**-24))
    return (x * kept + _SELU * (1 - kept)) * scale - scale * _SELU * p


def _bernoulli(draw: Draw, x: Tensor, p: float | Tensor | None = None, *, generator: Any = None) -> Tensor:
    """Ones with chance p, or of chances x; stochastic depth draws so."""
    return (draw(x.shape) < (x if p is None else p)).to(x.dtype)


def _bernoulli_(draw: Draw, x: Tensor, p: float | Tensor = 0.5, *, generator: Any = None) -> Tensor:
    return _bernoulli(draw, x, p)


def _scaled_attention(
    draw: Draw,
    query: Tensor,
    key: Tensor,
    value: Tensor,
    attn_mask: Tensor | None = None,
    dropout_p: float = 0.0,
    is_causal: bool = False,
    scale: float | None = None,
    enable_gqa: bool = False,
) -> Tensor:
    """Attention, its weights dropped with chance p; without dropout torch's own."""
    if dropout_p == 0:
        return F.scaled_dot_product_attention(
            query, key, value, attn_mask, 0.0, is_causal, scale=scale, enable_gqa=enable_gqa
        )
    if enable_gqa:
        key, value = (part.repeat_interleave(query.shape[-3] // part.shape[-3], -3) for part in (key, value))
    scores = query @ key.mT * (scale if scale is not None else query.shape[-1] ** -0.5)
    if is_causal:
        attn_mask = scores.new_ones(scores.shape[-2:], dtype=torch.bool).tril()
    if attn_mask is not None and attn_mask.dtype == torch.bool:
        attn_mask = torch.zeros_like(attn_mask, dtype=scores.dtype).masked_fill(~attn_mask, -math.inf)
    weights = (scores if attn_mask is None else scores + attn_mask).softmax(-1)
    return _drop(draw, weights, dropout_p) @ value


_RULES: dict[Callable[..., Any], Callable[..., Tensor]] = {
    F.dropout: _drop,
    torch.dropout: _drop,
    torch.dropout_: _drop,
    F.dropout1d: _drop_channels,
    F.dropout2d: _drop_channels,
    F.dropout3d: _drop_channels,
    torch.feature_dropout: _drop_channels,
    torch.feature_dropout_: _drop_channels,
    F.alpha_dropout: _alpha_drop,
    torch.alpha_dropout: _alpha_drop,
    F.feature_alpha_dropout: _alpha_drop_channels,
    torch.feature_alpha_dropout: _alpha_drop_channels,
    torch.bernoulli: _bernoulli,
    Tensor.bernoulli: _bernoulli,
    Tensor.bernoulli_: _bernoulli_,
    F.scaled_dot_product_attention: _scaled_attention,
}
