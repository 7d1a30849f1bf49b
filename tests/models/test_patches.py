"""Convolutions as matrix products equal convolutions, forward and backward."""

from __future__ import annotations

import pytest
import torch
from torch import nn

from counterpoise.models.model import MODELS
from counterpoise.models.patches import PatchConv2d, by_patches

SHAPES = [  # inputs, outputs, kernel, stride, padding
    (3, 5, 3, 1, 1),
    (3, 4, 3, 2, 1),
    (2, 4, 1, 2, 0),
    (1, 3, 7, 2, 3),
    (2, 3, (3, 5), (2, 1), (0, 2)),
    (2, 2, 2, 3, 1),
]


@pytest.mark.parametrize("bias", [True, False])
@pytest.mark.parametrize("shape", SHAPES, ids=str)
def test_outputs_and_gradients_are_those_of_the_convolution(shape: tuple[int, ...], bias: bool) -> None:
    inputs, outputs, kernel, stride, padding = shape
    layer = nn.Conv2d(inputs, outputs, kernel, stride, padding, bias=bias).double()
    patched = by_patches(nn.Sequential(layer))
    assert isinstance(patched[0], PatchConv2d)
    x = torch.randn(4, inputs, 9, 11, dtype=torch.float64, generator=torch.Generator().manual_seed(1))
    x.requires_grad_()
    found, expected = patched(x), layer(x)
    assert torch.allclose(found, expected, atol=1e-12)
    weight = torch.randn(expected.shape, dtype=torch.float64, generator=torch.Generator().manual_seed(2))
    ours = torch.autograd.grad((found * weight).sum(), [x, *patched.parameters()])
    theirs = torch.autograd.grad((expected * weight).sum(), [x, *layer.parameters()])
    for one, other in zip(ours, theirs, strict=True):
        assert torch.allclose(one, other, atol=1e-12)


@pytest.mark.parametrize(
    "options",
    [{"groups": 2}, {"dilation": 2}, {"padding_mode": "reflect", "padding": 1}, {"padding": "same"}],
    ids=str,
)
def test_other_convolutions_stay_as_they_are(options: dict[str, object]) -> None:
    module = nn.Sequential(nn.Conv2d(2, 4, 3, **options))  # type: ignore[arg-type]
    assert type(by_patches(module)[0]) is nn.Conv2d


def test_a_convolution_with_hooks_keeps_them() -> None:
    """A compiled step trained another network: without what hooks do to inputs and outputs."""
    module = nn.Sequential(nn.Conv2d(2, 4, 3), nn.Conv2d(4, 4, 3))
    module[0].register_forward_hook(lambda layer, given, found: 2 * found)
    module[1].register_forward_pre_hook(lambda layer, given: (given[0] + 1,))
    x = torch.randn(3, 2, 8, 8, generator=torch.Generator().manual_seed(1))
    assert torch.equal(by_patches(module)(x), module(x))


def test_names_and_values_of_parameters_stay_and_the_module_is_not_touched() -> None:
    module = MODELS.build("resnet8", {"norm": "group", "width": 4})((3, 8, 8), 5)
    patched = by_patches(module)
    ours, theirs = patched.state_dict(), module.state_dict()
    assert list(ours) == list(theirs)
    assert all(torch.equal(ours[name], theirs[name]) for name in ours)
    assert not any(isinstance(layer, PatchConv2d) for layer in module.modules())
    assert sum(isinstance(layer, PatchConv2d) for layer in patched.modules()) == sum(
        isinstance(layer, nn.Conv2d) for layer in module.modules()
    )
