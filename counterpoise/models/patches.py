"""Convolutions as one matrix product over patches: many stacked models then are one batched product on a GPU."""

from __future__ import annotations

from collections.abc import Callable
from copy import deepcopy
from functools import cache
from importlib.util import find_spec
from typing import TypeAlias

import torch
import torch.nn.functional as F  # noqa: N812
from torch import Tensor, nn

from counterpoise.models.init import HeConv2d

Convolution: TypeAlias = Callable[[Tensor, Tensor, int, int], Tensor]  # images, weight, stride, padding


class PatchConv2d(nn.Conv2d):
    """``patches(x) W``: the same numbers as the convolution it replaces, up to rounding.

    Libraries run the convolutions of stacked models, which are grouped ones, several times slower than this; it pays
    only where a compiler fuses the copying of the patches. In bfloat16 on a GPU a kernel forms them on the fly.
    """

    kernel: Convolution | None = None

    def _conv_forward(self, x: Tensor, weight: Tensor, bias: Tensor | None) -> Tensor:
        if torch.is_autocast_enabled(x.device.type):
            x = x.to(torch.get_autocast_dtype(x.device.type))  # before the patches multiply the traffic
        if self.kernel is not None and _suits(x, max(weight.shape[:2])):
            product = self.kernel(x, weight, self.stride[0], int(self.padding[0]))
            return product if bias is None else product + bias.to(x.dtype)[:, None, None]
        outputs, inputs, height, width = weight.shape
        patches = self._patches(x)  # [B, H, W, height * width * inputs]
        product = patches.flatten(0, 2) @ weight.permute(2, 3, 1, 0).reshape(height * width * inputs, outputs)
        product = product if bias is None else product + bias
        return product.view(*patches.shape[:3], outputs).permute(0, 3, 1, 2)

    def _patches(self, x: Tensor) -> Tensor:
        (down, right), (above, left) = self.stride, map(int, self.padding)
        height, width = self.kernel_size
        padded = F.pad(x, (left, left, above, above)).permute(0, 2, 3, 1)
        rows, columns = padded.shape[1] - height + 1, padded.shape[2] - width + 1
        shifted = [
            padded[:, i : i + rows : down, j : j + columns : right]
            for i in range(height)
            for j in range(width)
        ]
        return torch.cat(shifted, -1)


def by_patches(module: nn.Module) -> nn.Module:
    """A copy of the module whose plain convolutions are matrix products; names of parameters stay."""
    module = deepcopy(module)
    for parent in list(module.modules()):
        for name, layer in parent.named_children():
            if isinstance(layer, nn.Conv2d) and _is_plain(layer):
                setattr(parent, name, _converted(layer))
    return module


def _is_plain(layer: nn.Conv2d) -> bool:
    return (
        type(layer) in (nn.Conv2d, HeConv2d)
        and layer.groups == 1
        and layer.dilation == (1, 1)
        and layer.padding_mode == "zeros"
        and not isinstance(layer.padding, str)
        and not (layer._forward_pre_hooks or layer._forward_hooks)  # a converted layer would not call them
    )


def _converted(layer: nn.Conv2d) -> PatchConv2d:
    shape = layer.in_channels, layer.out_channels, layer.kernel_size, layer.stride, layer.padding
    with torch.device("meta"):
        converted = PatchConv2d(*shape, bias=layer.bias is not None)  # type: ignore[arg-type]
    converted.weight, converted.bias = layer.weight, layer.bias
    converted.kernel = kernel_of_this_machine() if _multiplies(layer) else None
    return converted


def _multiplies(layer: nn.Conv2d) -> bool:
    """Whether patches take several times the memory of the images, and channels fill a block of the kernel."""
    square = len(set(layer.stride)) == len(set(layer.padding)) == 1
    return square and max(layer.kernel_size) > 1 and min(layer.in_channels, layer.out_channels) >= 16


def _suits(x: Tensor, channels: int) -> bool:
    """Whether the kernel is for these images: in TF32 it would read twice as much, and it counts in 32 bits."""
    return x.is_cuda and x.dtype == torch.bfloat16 and x.numel() // x.shape[1] * channels < 2**31


@cache
def kernel_of_this_machine() -> Convolution | None:
    """Ours, where there is a GPU that multiplies bfloat16, and Triton, which torch for CUDA brings along."""
    able = torch.version.cuda is not None and torch.cuda.is_available() and find_spec("triton") is not None
    if not able or torch.cuda.get_device_capability() < (8, 0):
        return None
    from counterpoise.kernels import implicit_gemm

    convolution: Convolution = implicit_gemm.convolution
    return convolution
