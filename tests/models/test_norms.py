"""Our batch norm against torch's, and what the other kinds compute."""

from __future__ import annotations

from collections.abc import Iterator

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from torch import Tensor, nn
from torch.func import functional_call, grad, vmap

from counterpoise.core.rng import generator
from counterpoise.errors import ConfigError
from counterpoise.models.norms import BatchNorm, make_norm

TOLERANCE = {torch.float32: 1e-6, torch.float64: 1e-12}
TORCH = {2: nn.BatchNorm1d, 3: nn.BatchNorm1d, 4: nn.BatchNorm2d}


def _pair(channels: int, ndim: int, dtype: torch.dtype) -> tuple[BatchNorm, nn.Module]:
    """Ours and torch's with the same uneven weights."""
    ours, theirs = BatchNorm(channels).to(dtype), TORCH[ndim](channels).to(dtype)
    with torch.no_grad():
        ours.weight.copy_(torch.linspace(0.5, 1.5, channels))
        ours.bias.copy_(torch.linspace(-1, 1, channels))
    theirs.load_state_dict(ours.state_dict())
    return ours, theirs


def _batches(shape: tuple[int, ...], dtype: torch.dtype, seed: int = 0) -> Iterator[Tensor]:
    for step in range(3):
        yield torch.randn(shape, generator=generator(seed, "norm", step), dtype=dtype) * (step + 1) + step


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
@pytest.mark.parametrize("shape", [(8, 5), (8, 5, 7), (8, 5, 6, 7), (1, 5, 3, 3)])
def test_batch_norm_equals_torchs_in_both_modes(shape: tuple[int, ...], dtype: torch.dtype) -> None:
    ours, theirs = _pair(5, len(shape), dtype)
    close = {"rtol": TOLERANCE[dtype], "atol": TOLERANCE[dtype]}
    for x in _batches(shape, dtype):
        for mode in (True, False):
            mine, yours = x.clone().requires_grad_(), x.clone().requires_grad_()
            left, right = ours.train(mode)(mine), theirs.train(mode)(yours)
            torch.testing.assert_close(left, right, **close)
            (left**3).mean().backward()
            (right**3).mean().backward()
            torch.testing.assert_close(mine.grad, yours.grad, **close)
        for key, value in theirs.state_dict().items():
            torch.testing.assert_close(ours.state_dict()[key], value, **close)
    for mine, yours in zip(ours.parameters(), theirs.parameters(), strict=True):
        torch.testing.assert_close(
            mine.grad, yours.grad, rtol=10 * TOLERANCE[dtype], atol=10 * TOLERANCE[dtype]
        )


@settings(max_examples=30, deadline=None)
@given(batch=st.integers(2, 9), channels=st.integers(1, 6), side=st.integers(1, 4), seed=st.integers(0, 99))
def test_batch_norm_equals_torchs_for_any_shape(batch: int, channels: int, side: int, seed: int) -> None:
    ours, theirs = _pair(channels, 4, torch.float64)
    for x in _batches((batch, channels, side, side), torch.float64, seed):
        torch.testing.assert_close(ours(x), theirs(x), rtol=1e-10, atol=1e-10)
    torch.testing.assert_close(ours.running_var, theirs.running_var, rtol=1e-12, atol=1e-12)


def test_batch_norm_by_hand() -> None:
    norm = BatchNorm(1, eps=0.0, momentum=0.5)
    out = norm(torch.tensor([[1.0], [3.0]]))  # mean 2, biased variance 1, unbiased 2
    assert out.flatten().tolist() == [-1.0, 1.0]
    assert norm.running_mean.item() == 1.0  # (0 + 2) / 2
    assert norm.running_var.item() == 1.5  # (1 + 2) / 2
    assert norm.num_batches_tracked.item() == 1
    norm.eval()
    assert norm(torch.tensor([[2.5]])).item() == pytest.approx(1.5 / 1.5**0.5)


def test_a_single_value_leaves_a_finite_running_variance() -> None:
    norm = BatchNorm(2)
    out = norm(torch.tensor([[3.0, -4.0]]))
    assert out.tolist() == [[0.0, 0.0]]
    torch.testing.assert_close(norm.running_mean, torch.tensor([0.3, -0.4]))
    torch.testing.assert_close(norm.running_var, torch.tensor([0.9, 0.9]))


def test_functional_call_moves_the_given_buffers_and_not_the_modules() -> None:
    norm = BatchNorm(2).train()
    given_buffers = {name: b.clone() for name, b in norm.named_buffers()}
    functional_call(norm, given_buffers, (torch.tensor([[1.0, 2.0], [3.0, 6.0]]),))
    torch.testing.assert_close(given_buffers["running_mean"], torch.tensor([0.2, 0.4]))
    assert given_buffers["num_batches_tracked"].item() == 1
    assert norm.running_mean.tolist() == [0.0, 0.0]
    assert norm.num_batches_tracked.item() == 0


def test_batch_norm_under_bfloat16_keeps_float32_statistics() -> None:
    norm = BatchNorm(3).train()
    x = (torch.randn(64, 3, generator=generator(0, "bf16")) + 100).bfloat16()
    out = norm(x)
    assert out.dtype == torch.bfloat16
    assert norm.running_mean.dtype == torch.float32
    torch.testing.assert_close(norm.running_mean, 0.1 * x.float().mean(0))


def test_batch_norm_stacks_under_bfloat16_autocast() -> None:
    net = nn.Sequential(nn.Linear(4, 3), BatchNorm(3))
    params = {name: torch.stack([p.detach(), 2 * p.detach()]) for name, p in net.named_parameters()}
    buffers = {name: torch.stack([b, b]) for name, b in net.named_buffers()}

    def loss(params: dict[str, Tensor], buffers: dict[str, Tensor], x: Tensor) -> Tensor:
        with torch.autocast("cpu", torch.bfloat16):
            return functional_call(net, (params, buffers), (x,)).float().pow(3).sum()

    grads = vmap(grad(loss))(params, buffers, torch.randn(2, 8, 4, generator=generator(0, "x")))
    assert all(g.dtype == torch.float32 and torch.isfinite(g).all() for g in grads.values())


def test_layer_norm_of_a_row_is_torchs() -> None:
    x = torch.randn(4, 6, generator=generator(0, "layer"))
    torch.testing.assert_close(make_norm("layer", 6, groups=3)(x), nn.LayerNorm(6)(x))


def test_group_norm_by_hand() -> None:
    x = torch.tensor([[1.0, 3.0, 10.0, 30.0]])
    expected = torch.tensor([[-1.0, 1.0, -1.0, 1.0]])
    torch.testing.assert_close(make_norm("group", 4, groups=2)(x), expected, rtol=1e-4, atol=1e-4)


def test_no_norm_changes_nothing() -> None:
    x = torch.ones(2, 3)
    assert make_norm("none", 3)(x) is x


def test_groups_must_divide_the_channels() -> None:
    with pytest.raises(ConfigError, match="groups = 4 does not divide 6 channels"):
        make_norm("group", 6, groups=4)
