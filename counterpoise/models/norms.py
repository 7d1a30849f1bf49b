"""Normalisation layers that run under vmap and grad, in training and in evaluation."""

from __future__ import annotations

from copy import deepcopy
from typing import Literal, TypeAlias

import torch
from torch import Tensor, nn

from counterpoise.errors import ConfigError

NormKind: TypeAlias = Literal["batch", "group", "layer", "none"]
TorchBatchNorm: TypeAlias = nn.BatchNorm1d | nn.BatchNorm2d | nn.BatchNorm3d | nn.SyncBatchNorm
_TORCH_KINDS = (nn.BatchNorm1d, nn.BatchNorm2d, nn.BatchNorm3d, nn.SyncBatchNorm)


def goes_by_batches(layer: nn.Module) -> bool:
    """Whether what a layer computes or keeps depends on the whole batch, so that padding would enter it."""
    tracks = isinstance(layer, nn.modules.batchnorm._NormBase) and layer.track_running_stats
    return tracks or "BatchNorm" in type(layer).__name__


def counts_batches(layer: nn.Module) -> bool:
    """Whether torch's norm asks its counter of batches for a plain number, which it has not under vmap."""
    return isinstance(layer, _TORCH_KINDS) and layer.momentum is None


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

    The numbers are those of torch's own layers, whose kernels do not run under vmap in evaluation on every device. A channel
    seen only once has no unbiased variance; its biased one, 0, enters the running variance instead of NaN. Under
    bfloat16 the moments are computed and kept in the type of the running statistics.
    """

    weight: nn.Parameter | None
    bias: nn.Parameter | None
    running_mean: Tensor
    running_var: Tensor
    num_batches_tracked: Tensor

    def __init__(
        self, channels: int, eps: float = 1e-5, momentum: float | None = 0.1, affine: bool = True
    ) -> None:
        """As torch's: without a momentum the running statistics are plain means over all batches."""
        super().__init__()
        self.eps, self.momentum = eps, momentum
        self.register_parameter("weight", nn.Parameter(torch.ones(channels)) if affine else None)
        self.register_parameter("bias", nn.Parameter(torch.zeros(channels)) if affine else None)
        self.register_buffer("running_mean", torch.zeros(channels))
        self.register_buffer("running_var", torch.ones(channels))
        self.register_buffer("num_batches_tracked", torch.tensor(0))

    def forward(self, x: Tensor) -> Tensor:
        values = x.to(self.running_mean.dtype)  # a mean over bfloat16 would lose digits
        mean, var = self._batch_moments(values) if self.training else (self.running_mean, self.running_var)
        scale = (var + self.eps).rsqrt()
        scale = scale if self.weight is None else self.weight * scale
        per_channel = (-1,) + (1,) * (x.ndim - 2)
        scaled = (values - mean.view(per_channel)) * scale.view(per_channel)
        return (scaled if self.bias is None else scaled + self.bias.view(per_channel)).to(x.dtype)

    def _batch_moments(self, x: Tensor) -> tuple[Tensor, Tensor]:
        var, mean = torch.var_mean(x, dim=(0, *range(2, x.ndim)), correction=0)
        count = x.numel() // x.shape[1]
        self._track(mean.detach(), var.detach() * (count / max(count - 1, 1)))
        return mean, var

    def _track(self, mean: Tensor, var: Tensor) -> None:
        """Write into the buffers found here: functional_call puts a client's own in their place."""
        self.num_batches_tracked.add_(1)
        share = self.momentum if self.momentum is not None else 1 / self.num_batches_tracked.to(mean.dtype)
        self.running_mean.mul_(1 - share).add_(share * mean)
        self.running_var.mul_(1 - share).add_(share * var)

    def extra_repr(self) -> str:
        return f"{self.running_mean.numel()}, eps={self.eps}, momentum={self.momentum}"


def with_own_norms(module: nn.Module) -> nn.Module:
    """A copy of the module with our BatchNorm instead of torch's; names of parameters and buffers stay."""
    module = deepcopy(module)
    for parent in list(module.modules()):
        for name, layer in parent.named_children():
            if type(layer) in _TORCH_KINDS and _is_plain(layer):  # type: ignore[arg-type]
                setattr(parent, name, _converted(layer))  # type: ignore[arg-type]
    return module


def _is_plain(layer: TorchBatchNorm) -> bool:
    """Whether it normalises as ours does, and has no hooks."""
    return layer.running_mean is not None and not (layer._forward_hooks or layer._forward_pre_hooks)


def _converted(layer: TorchBatchNorm) -> BatchNorm:
    norm = BatchNorm(layer.num_features, layer.eps, layer.momentum, layer.affine)
    norm.weight, norm.bias = layer.weight, layer.bias
    for name, buffer in layer.named_buffers():
        setattr(norm, name, buffer)
    return norm.train(layer.training)
