"""Normalisation layers that stack: each runs under vmap and grad, in training and in evaluation."""

from __future__ import annotations

from typing import Literal, TypeAlias

import torch
from torch import Tensor, nn

from counterpoise.errors import ConfigError

NormKind: TypeAlias = Literal["batch", "group", "layer", "none"]


def make_norm(kind: NormKind, channels: int, groups: int = 2) -> nn.Module:
    """A norm over [B, channels, ...]; "layer" is one group, so it has an affine pair for each channel too."""
    if kind == "none":
        return nn.Identity()
    if kind == "batch":
        return BatchNorm(channels)
    groups = groups if kind == "group" else 1
    if channels % groups:
        raise ConfigError(f"group norm: groups = {groups} does not divide {channels} channels")
    return nn.GroupNorm(groups, channels)


class BatchNorm(nn.Module):
    """``(x - mean) / sqrt(var + eps) * weight + bias`` for each channel of [B, channels, ...].

    The numbers are those of torch's own layers, whose kernels do not stack in evaluation on every device. A channel
    seen only once has no unbiased variance; its biased one, 0, enters the running variance instead of NaN.
    """

    running_mean: Tensor
    running_var: Tensor
    num_batches_tracked: Tensor

    def __init__(self, channels: int, eps: float = 1e-5, momentum: float = 0.1) -> None:
        super().__init__()
        self.eps, self.momentum = eps, momentum
        self.weight = nn.Parameter(torch.ones(channels))
        self.bias = nn.Parameter(torch.zeros(channels))
        self.register_buffer("running_mean", torch.zeros(channels))
        self.register_buffer("running_var", torch.ones(channels))
        self.register_buffer("num_batches_tracked", torch.tensor(0))

    def forward(self, x: Tensor) -> Tensor:
        values = x.to(self.running_mean.dtype)  # a mean over bfloat16 would lose digits
        mean, var = self._batch_moments(values) if self.training else (self.running_mean, self.running_var)
        scale = self.weight * (var + self.eps).rsqrt()
        per_channel = (-1,) + (1,) * (x.ndim - 2)
        centred = values - mean.view(per_channel)
        return (centred * scale.view(per_channel) + self.bias.view(per_channel)).to(x.dtype)

    def _batch_moments(self, x: Tensor) -> tuple[Tensor, Tensor]:
        var, mean = torch.var_mean(x, dim=(0, *range(2, x.ndim)), correction=0)
        count = x.numel() // x.shape[1]
        self._track(mean.detach(), var.detach() * (count / max(count - 1, 1)))
        return mean, var

    def _track(self, mean: Tensor, var: Tensor) -> None:
        """Write into the buffers found here: functional_call puts a client's own in their place."""
        self.running_mean.mul_(1 - self.momentum).add_(self.momentum * mean)
        self.running_var.mul_(1 - self.momentum).add_(self.momentum * var)
        self.num_batches_tracked.add_(1)

    def extra_repr(self) -> str:
        return f"{self.weight.numel()}, eps={self.eps}, momentum={self.momentum}"
