"""Convolutions by our kernels are torch's: on a GPU, and without one in Triton's interpreter (`make test-kernels`)."""

from __future__ import annotations

import os
from collections.abc import Callable

import pytest
import torch
import torch.nn.functional as F  # noqa: N812
from hypothesis import given, settings
from hypothesis import strategies as st
from torch import Tensor, nn
from torch.func import grad, vjp, vmap

GPU = torch.cuda.is_available()
if not GPU:
    os.environ["TRITON_INTERPRET"] = "1"  # read when Triton is imported
pytest.importorskip("triton", reason="no Triton on this machine: make test-kernels")

from counterpoise.kernels import implicit_gemm  # noqa: E402
from counterpoise.kernels.implicit_gemm import convolution  # noqa: E402
from counterpoise.models import patches  # noqa: E402

DEVICE = "cuda" if GPU else "cpu"
CLOSE = 2e-2 if GPU else 1e-4  # matrix units take float32 as TF32
HALF = torch.bfloat16 if GPU else torch.float16  # the interpreter does not multiply bfloat16
MODELS = 3
SHAPES = [  # inputs, outputs, kernel, stride, padding, height, width
    (3, 5, 3, 1, 1, 6, 7),
    (16, 20, 3, 2, 1, 9, 8),
    (4, 4, 1, 2, 0, 5, 5),
    (2, 3, 5, 3, 2, 11, 9),
    (2, 2, 2, 3, 1, 2, 2),
    (70, 130, 3, 1, 0, 5, 5),  # more channels than a block
    (3, 300, 3, 1, 1, 3, 3),
]

Layer = Callable[[Tensor, Tensor], Tensor]


def draw(*shape: int, seed: int = 0) -> Tensor:
    return torch.randn(shape, generator=torch.Generator().manual_seed(seed)).to(DEVICE)


def ours(x: Tensor, w: Tensor) -> Tensor:
    return convolution(x, w, 2, 1)


def torchs(x: Tensor, w: Tensor) -> Tensor:
    return F.conv2d(x, w, stride=2, padding=1)


def assert_close(found: Tensor, expected: Tensor) -> None:
    assert found.shape == expected.shape
    assert (found - expected).abs().max() <= CLOSE * max(1.0, float(expected.detach().abs().max()))


def assert_is_the_convolution(shape: tuple[int, ...], images: int = 3) -> None:
    inputs, outputs, kernel, stride, padding, height, width = shape
    x = draw(images, inputs, height, width).requires_grad_()
    w = draw(outputs, inputs, kernel, kernel, seed=1).requires_grad_()
    found, expected = convolution(x, w, stride, padding), F.conv2d(x, w, stride=stride, padding=padding)
    assert_close(found, expected)
    pull = draw(*expected.shape, seed=2)
    for one, other in zip(*(torch.autograd.grad(y, (x, w), pull) for y in (found, expected)), strict=True):
        assert_close(one, other)


@pytest.mark.parametrize("shape", SHAPES, ids=str)
def test_outputs_and_gradients_are_those_of_the_convolution(shape: tuple[int, ...]) -> None:
    assert_is_the_convolution(shape)


@settings(max_examples=30, deadline=None)
@given(
    st.tuples(*(st.integers(1, 20),) * 2, st.integers(1, 4), st.integers(1, 3), st.integers(0, 3)),
    st.tuples(st.integers(4, 9), st.integers(4, 9)),
    st.integers(1, 4),
)
def test_any_layer(layer: tuple[int, ...], size: tuple[int, int], images: int) -> None:
    assert_is_the_convolution((*layer, *size), images)


def test_a_long_sum_in_parts_is_the_sum(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(implicit_gemm, "SHORTEST", 7)
    parts = implicit_gemm.sum_products(draw(1, 2, 8, 8, 16), draw(1, 2, 8, 8, 16), 1, 1, 3, 3)
    assert parts.shape[1] > 5
    assert_is_the_convolution((16, 16, 3, 1, 1, 8, 8), images=2)


def loss_of(layer: Layer) -> Callable[[Tensor, Tensor], Tensor]:
    return lambda w, x: layer(x, w).relu().square().mean()


@pytest.mark.parametrize("compiled", [False, True])
@pytest.mark.parametrize("own", [True, False], ids=["own weights", "one weight for all"])
def test_stacked_models_have_each_its_gradient(own: bool, compiled: bool) -> None:
    x, w = draw(MODELS, 2, 4, 7, 6), draw(MODELS, 5, 4, 3, 3, seed=1)
    axes, given = (0 if own else None, 0), (w if own else w[0], x)
    found = vmap(grad(loss_of(ours)), axes)
    run = torch.compile(found, fullgraph=True, backend="aot_eager") if compiled else found
    assert_close(run(*given), vmap(grad(loss_of(torchs)), axes)(*given))


@pytest.mark.parametrize("compiled", [False, True])
def test_one_pass_forward_and_several_back(compiled: bool) -> None:
    """As the gradients of groups of samples are taken."""

    def groups(layer: Layer) -> Callable[[Tensor, Tensor], Tensor]:
        def gradients(w: Tensor, x: Tensor) -> Tensor:
            _, pull = vjp(lambda w: layer(x, w).square().mean((1, 2, 3)), w)
            return vmap(pull)(torch.eye(len(x), device=DEVICE))[0]

        return vmap(gradients)

    x, w = draw(MODELS, 2, 4, 7, 6), draw(MODELS, 5, 4, 3, 3, seed=1)
    run = groups(ours)
    run = torch.compile(run, fullgraph=True, backend="aot_eager") if compiled else run
    assert_close(run(w, x), groups(torchs)(w, x))


def test_second_derivatives() -> None:
    def second(layer: Layer) -> Callable[[Tensor, Tensor], Tensor]:
        first = grad(loss_of(layer), (0, 1))
        return grad(lambda w, x: sum((one**2).sum() for one in first(w, x)), (0, 1))  # type: ignore[arg-type, return-value]

    x, w = draw(2, 4, 5, 6), draw(3, 4, 3, 3, seed=1)
    for found, expected in zip(second(ours)(w, x), second(torchs)(w, x), strict=True):
        assert_close(found, expected)


def test_in_half_precision_only_the_operands_and_the_output_are_rounded() -> None:
    x, w = draw(2, 16, 8, 8).to(HALF), draw(16, 16, 3, 3, seed=1).requires_grad_()
    rounded = w.detach().to(HALF).double().requires_grad_()
    found, expected = ours(x, w), torchs(x.double(), rounded)
    assert found.dtype == HALF
    assert (found.double() - expected).abs().max() <= torch.finfo(HALF).eps * expected.abs().max()
    pull = draw(*expected.shape, seed=2).to(HALF)
    (mine,) = torch.autograd.grad(found, w, pull)
    (exact,) = torch.autograd.grad(expected, rounded, pull.double())
    assert mine.dtype == torch.float32
    assert (mine.double() - exact).abs().max() <= 1e-5 * exact.abs().max()


@pytest.mark.parametrize("bias", [True, False])
def test_layers_of_a_model_take_the_kernel(bias: bool, monkeypatch: pytest.MonkeyPatch) -> None:
    calls = []
    monkeypatch.setattr(
        patches, "kernel_of_this_machine", lambda: lambda *given: calls.append(1) or convolution(*given)
    )
    monkeypatch.setattr(patches, "_suits", lambda x, channels: x.dtype == HALF)
    layers = nn.Sequential(nn.Conv2d(3, 16, 3, bias=bias), nn.Conv2d(16, 16, 3, 2, 1, bias=bias)).to(DEVICE)
    x = draw(2, 3, 9, 9)
    with torch.autocast(DEVICE, HALF):
        found = patches.by_patches(layers)(x)
    assert len(calls) == 1  # three channels do not fill a block
    assert torch.allclose(found.float(), layers(x), atol=0.05)
    assert found.dtype == HALF
