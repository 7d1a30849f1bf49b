"""Losses against numbers worked out by hand, finite differences, and plain cross entropy where they must equal it."""

from __future__ import annotations

import math
from typing import Any

import pytest
import torch
import torch.nn.functional as F  # noqa: N812
from federations import small_model
from hypothesis import given, settings
from hypothesis import strategies as st
from loss_hooks import built, mean_loss, per_sample, start, told
from torch import Tensor

from counterpoise.core.rng import generator
from counterpoise.models.heads import CosineHead

LOSSES: list[tuple[str, dict[str, Any]]] = [
    ("cross_entropy", {}),
    ("focal", {"gamma": 2.0}),
    ("focal", {"gamma": 0.5}),
    ("balanced_softmax", {"tau": 0.7}),
    ("ldam", {"scale": 3.0}),
    ("fedlc", {"tau": 0.8}),
    ("restricted_softmax", {"alpha": 0.3}),
    ("weighted_ce", {}),
    ("class_balanced", {"beta": 0.9}),
]
NEUTRAL_WHEN_EQUAL = [
    ("balanced_softmax", {}),
    ("balanced_softmax", {"tau": 0.3}),
    ("fedlc", {}),
    ("restricted_softmax", {"alpha": 0.0}),
    ("weighted_ce", {}),
    ("class_balanced", {}),
    ("class_balanced", {"beta": 0.5}),
]


def _logits(
    rows: int = 6, classes: int = 4, scale: float = 2.0, dtype: torch.dtype = torch.float64
) -> Tensor:
    return scale * torch.randn(rows, classes, generator=generator(0, "logits"), dtype=dtype)


def test_focal_of_hand_picked_chances() -> None:
    logits = torch.tensor([[0.25, 0.75], [0.5, 0.5], [0.9, 0.1]], dtype=torch.float64).log()
    found = per_sample(built("focal", gamma=2.0), [5, 5], logits, [0, 1, 0])
    expected = [0.75**2 * math.log(4), 0.25 * math.log(2), 0.01 * -math.log(0.9)]
    assert found.tolist() == pytest.approx(expected, rel=1e-12)


def test_focal_with_gamma_zero_is_cross_entropy_bit_for_bit() -> None:
    logits, labels = _logits(), [0, 1, 2, 3, 3, 0]
    found = per_sample(built("focal", gamma=0.0), [1, 1, 1, 1], logits, labels)
    assert torch.equal(found, F.cross_entropy(logits, torch.tensor(labels), reduction="none"))


def test_balanced_softmax_adds_the_log_of_the_prior() -> None:
    logits = torch.tensor([[1.0, 2.0, 0.0]], dtype=torch.float64)
    found = per_sample(built("balanced_softmax"), [6, 3, 1], logits, [1])
    weighed = [0.6 * math.exp(1), 0.3 * math.exp(2), 0.1]
    assert float(found) == pytest.approx(-math.log(weighed[1] / sum(weighed)), rel=1e-12)


def test_balanced_softmax_counts_an_absent_class_as_one_sample() -> None:
    logits = _logits()
    absent = per_sample(built("balanced_softmax"), [6, 3, 0, 0], logits, [0] * 6)
    once = per_sample(built("balanced_softmax"), [6, 3, 1, 1], logits, [0] * 6)
    assert torch.equal(absent, once)


def test_restricted_softmax_halves_the_logits_of_absent_classes() -> None:
    logits = torch.tensor([[1.0, 2.0, -1.0], [0.0, -4.0, 3.0]], dtype=torch.float64)
    found = per_sample(built("restricted_softmax"), [3, 0, 2], logits, [0, 2])
    first, second = (math.exp(1), math.exp(1), math.exp(-1)), (1, math.exp(-2), math.exp(3))
    expected = [-math.log(first[0] / sum(first)), -math.log(second[2] / sum(second))]
    assert found.tolist() == pytest.approx(expected, rel=1e-12)


@given(st.floats(0, 1), st.integers(0, 10**6))
@settings(max_examples=50, deadline=None)
def test_restricted_softmax_pushes_absent_classes_away_by_alpha_times_their_chance(
    alpha: float, seed: int
) -> None:
    logits = torch.randn(1, 4, generator=generator(seed, "logits"), dtype=torch.float64).requires_grad_()
    value = per_sample(built("restricted_softmax", alpha=alpha), [5, 0, 1, 0], logits, [2])
    (slope,) = torch.autograd.grad(value.sum(), logits)
    scale = torch.tensor([1, alpha, 1, alpha], dtype=torch.float64)
    chance = (scale * logits.detach()).softmax(-1)
    expected = scale * chance - torch.tensor([0, 0, 1.0, 0], dtype=torch.float64)
    torch.testing.assert_close(slope, expected)


def test_restricted_softmax_of_alpha_one_is_cross_entropy_bit_for_bit() -> None:
    logits, labels = _logits(), [0, 1, 0, 1, 1, 0]
    found = per_sample(built("restricted_softmax", alpha=1.0), [3, 2, 0, 0], logits, labels)
    assert torch.equal(found, F.cross_entropy(logits, torch.tensor(labels), reduction="none"))


def test_ldam_margins_are_largest_for_the_rarest_present_class() -> None:
    margin = start(built("ldam", max_margin=0.5), [16, 81, 1, 0])["margin"]
    assert margin.tolist() == pytest.approx([0.5 / 2, 0.5 / 3, 0.5, 0.5], rel=1e-12)
    margin = start(built("ldam", max_margin=0.4), [16, 81, 0])["margin"]
    assert margin.tolist() == pytest.approx([0.4, 0.4 * 2 / 3, 0.8], rel=1e-12)


def test_ldam_takes_the_margin_off_the_true_class_only() -> None:
    logits = torch.tensor([[0.6, 0.2]], dtype=torch.float64)
    found = per_sample(built("ldam", max_margin=0.5, scale=10.0), [16, 1], logits, [0])
    true, other = 10 * (0.6 - 0.25), 10 * 0.2
    assert float(found) == pytest.approx(math.log1p(math.exp(other - true)), rel=1e-12)


def test_ldam_puts_a_cosine_head_on_the_model() -> None:
    part = built("ldam")
    assert part.adapt is not None
    head = part.adapt(small_model()).head
    assert isinstance(head, CosineHead)


def test_fedlc_by_hand_and_an_absent_class_leaves_the_softmax() -> None:
    logits = torch.tensor([[1.0, 2.0, 5.0]], dtype=torch.float64)
    part = built("fedlc", tau=0.8)
    shift = start(part, [16, 81, 0])["shift"]  # up to a common shift, which softmax ignores
    assert (shift - shift[0]).tolist() == pytest.approx([0, 0.8 / 2 - 0.8 / 3, 0.8 / 2 - 80.0], rel=1e-12)
    found = per_sample(part, [16, 81, 0], logits, [0])
    true, other = 1 - 0.8 / 2, 2 - 0.8 / 3
    assert float(found) == pytest.approx(math.log1p(math.exp(other - true)), rel=1e-12)


@pytest.mark.parametrize(("name", "arguments"), LOSSES)
@pytest.mark.parametrize("counts", [[7, 5, 2, 1], [9, 0, 4, 0], [0, 3, 0, 0]], ids=str)
def test_gradients_agree_with_finite_differences(
    name: str, arguments: dict[str, Any], counts: list[int]
) -> None:
    part = built(name, **arguments)
    present = [c for c, n in enumerate(counts) if n]
    labels = [present[i % len(present)] for i in range(6)]
    logits = _logits().requires_grad_()
    assert torch.autograd.gradcheck(
        lambda z: mean_loss(part, counts, z, labels), (logits,), eps=1e-6, atol=1e-6
    )


@pytest.mark.parametrize(("name", "arguments"), NEUTRAL_WHEN_EQUAL)
@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
def test_equal_counts_equal_plain_cross_entropy_bit_for_bit(
    name: str, arguments: dict[str, Any], dtype: torch.dtype
) -> None:
    labels = [row % 4 for row in range(200)]
    for count in (1, 7, 1000):
        logits = _logits(200, dtype=dtype).requires_grad_()
        found, expected = (
            mean_loss(part, [count] * 4, logits, labels)
            for part in (built(name, **arguments), built("cross_entropy"))
        )
        slopes = [torch.autograd.grad(value, logits)[0] for value in (found, expected)]
        assert torch.equal(found, expected)
        assert torch.equal(*slopes)


@pytest.mark.parametrize(("name", "arguments"), LOSSES)
def test_renaming_the_classes_renames_the_result_only(name: str, arguments: dict[str, Any]) -> None:
    counts, labels, order = [7, 5, 0, 1], [0, 1, 3, 1, 0, 3], [2, 0, 3, 1]
    logits, place = _logits(), [order.index(c) for c in range(4)]
    found = mean_loss(built(name, **arguments), counts, logits, labels)
    renamed = mean_loss(
        built(name, **arguments), [counts[c] for c in order], logits[:, order], [place[y] for y in labels]
    )
    assert float(found) == pytest.approx(float(renamed), rel=1e-13)


def test_one_class_clients_learn_nothing_from_a_loss_that_removes_the_other_classes() -> None:
    logits = _logits().requires_grad_()
    (slope,) = torch.autograd.grad(mean_loss(built("fedlc"), [0, 9, 0, 0], logits, [1] * 6), logits)
    assert float(slope.abs().max()) < 1e-30


@pytest.mark.parametrize("name", ["balanced_softmax", "ldam"])
def test_global_counts_are_the_sum_over_all_clients(name: str) -> None:
    clients = [[5, 1, 0], [0, 3, 0], [4, 0, 1]]
    shared = told(built(name, counts="global"), clients)
    assert shared["counts"].tolist() == [9, 4, 1]
    global_slot = start(built(name, counts="global"), clients[1], shared)
    assert all(torch.equal(v, start(built(name), [9, 4, 1])[key]) for key, v in global_slot.items())
    assert any(not torch.equal(v, start(built(name), clients[1])[key]) for key, v in global_slot.items())


COUNTS = st.lists(st.integers(0, 10**7), min_size=2, max_size=8).filter(any)


@settings(deadline=None, max_examples=60)
@given(COUNTS, st.sampled_from(LOSSES), st.floats(0, 1e4), st.integers(0, 1000))
def test_losses_and_gradients_are_finite_whatever_the_counts_and_logits(
    counts: list[int], loss: tuple[str, dict[str, Any]], scale: float, seed: int
) -> None:
    _assert_finite(counts, loss, scale, seed)


@pytest.mark.slow
@pytest.mark.parametrize("loss", LOSSES, ids=str)
@settings(deadline=None, max_examples=10_000)
@given(counts=COUNTS, scale=st.floats(0, 1e4), seed=st.integers(0, 1000))
def test_every_loss_is_finite_in_ten_thousand_cases(
    loss: tuple[str, dict[str, Any]], counts: list[int], scale: float, seed: int
) -> None:
    _assert_finite(counts, loss, scale, seed)


def _assert_finite(counts: list[int], loss: tuple[str, dict[str, Any]], scale: float, seed: int) -> None:
    present = [c for c, n in enumerate(counts) if n]
    labels = [present[i % len(present)] for i in range(5)]
    drawn = torch.randn(5, len(counts), generator=generator(seed, "logits"))
    for dtype in (torch.float32, torch.float64):
        logits = (scale * drawn).to(dtype).requires_grad_()
        value = mean_loss(built(loss[0], **loss[1]), counts, logits, labels)
        (slope,) = torch.autograd.grad(value, logits)
        assert torch.isfinite(value)
        assert float(value.detach()) >= -1e-6
        assert torch.isfinite(slope).all()
