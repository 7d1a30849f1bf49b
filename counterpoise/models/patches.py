"""Convolutions as one matrix product over patches: many stacked models then are one batched product on a GPU."""

from __future__ import annotations

from copy import deepcopy

import torch
import torch.nn.functional as F  # noqa: N812
from torch import Tensor, nn

from counterpoise.models.init import HeConv2d


class PatchConv2d(nn.Conv2d):
    """``patches(x) W``: the same numbers as the convolution it replaces, up to rounding.

    Libraries run the convolutions of stacked models, which are grouped ones, several times slower than this; it pays
    only where a compiler fuses the copying of the patches.
    """

    def _conv_forward(self, x: Tensor, weight: Tensor, bias: Tensor | None) -> Tensor:
        outputs, inputs, height, width = weight.shape
        if torch.is_autocast_enabled(x.device.type):
            x = x.to(torch.get_autocast_dtype(x.device.type))  # before the patches multiply the traffic
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
    )


def _converted(layer: nn.Conv2d) -> PatchConv2d:
    shape = layer.in_channels, layer.out_channels, layer.kernel_size, layer.stride, layer.padding
    with torch.device("meta"):
        converted = PatchConv2d(*shape, bias=layer.bias is not None)  # type: ignore[arg-type]
    converted.weight, converted.bias = layer.weight, layer.bias
    return converted
