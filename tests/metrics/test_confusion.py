"""Counts add up over clients and stay exact; padding does not count; vmap gives the same."""

from __future__ import annotations

import math

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from sklearn.metrics import confusion_matrix
from torch import Tensor

from counterpoise.metrics import (
    calibration,
    confusion,
    cross_entropies,
    expected_calibration_error,
    mean_cross_entropy,
)


def samples(seed: int, count: int, classes: int) -> tuple[Tensor, Tensor]:
    stream = torch.Generator().manual_seed(seed)
    logits = 2 * torch.randn(count, classes, generator=stream)
    return logits, torch.randint(classes, (count,), generator=stream)


def direct_calibration_error(logits: Tensor, y: Tensor, bins: int) -> float:
    """Guo et al. (2017), eq. 3, bin by bin."""
    confidence, guess = (v.numpy() for v in logits.double().softmax(1).max(1))
    hit = guess == y.numpy()
    error = 0.0
    for low, high in zip(np.linspace(0, 1, bins + 1)[:-1], np.linspace(0, 1, bins + 1)[1:], strict=True):
        inside = (confidence > low) & (confidence <= high)
        if inside.any():
            error += inside.mean() * abs(hit[inside].mean() - confidence[inside].mean())
    return error


def test_rows_are_true_and_columns_predicted_classes() -> None:
    logits = torch.tensor([[9.0, 0, 0], [0, 9, 0], [0, 9, 0], [0, 0, 9]])
    counts = confusion(logits, torch.tensor([0, 0, 1, 1]))
    assert counts.dtype == torch.int64
    assert counts.tolist() == [[1, 1, 0], [0, 1, 1], [0, 0, 0]]


@settings(deadline=None)
@given(st.integers(0, 10**6), st.integers(1, 60), st.integers(2, 7))
def test_confusion_equals_scikit_learn(seed: int, count: int, classes: int) -> None:
    logits, y = samples(seed, count, classes)
    expected = confusion_matrix(y, logits.argmax(1), labels=range(classes))
    assert confusion(logits, y).tolist() == expected.tolist()


@pytest.mark.parametrize("dtype", [torch.bool, torch.float32])
def test_masked_samples_do_not_count_whatever_they_hold(dtype: torch.dtype) -> None:
    logits, y = samples(0, 12, 3)
    mask = (torch.arange(12) < 8).to(dtype)
    padded, labels = logits.clone(), y.clone()
    padded[8:], labels[8:] = torch.nan, -1
    assert torch.equal(confusion(padded, labels, mask), confusion(logits[:8], y[:8]))
    assert torch.equal(calibration(padded, labels, mask), calibration(logits[:8], y[:8]))


@settings(deadline=None)
@given(st.integers(0, 10**6), st.lists(st.integers(0, 20), min_size=1, max_size=5))
def test_sums_over_clients_are_those_of_the_whole(seed: int, sizes: list[int]) -> None:
    logits, y = samples(seed, sum(sizes), 4)
    clients = list(zip(torch.split(logits, sizes), torch.split(y, sizes), strict=True))
    assert torch.equal(torch.stack([confusion(*client) for client in clients]).sum(0), confusion(logits, y))
    torch.testing.assert_close(
        torch.stack([calibration(*client) for client in clients]).sum(0), calibration(logits, y)
    )


def test_sums_of_stacked_clients_equal_those_of_each() -> None:
    logits, y = samples(1, 60, 5)
    clients = logits.view(3, 20, 5), y.view(3, 20), (torch.arange(60) % 7 > 0).view(3, 20)
    for measure in (confusion, calibration, cross_entropies):
        stacked = torch.vmap(measure)(*clients)
        assert torch.equal(stacked, torch.stack([measure(*client) for client in zip(*clients, strict=True)]))
        assert torch.equal(
            torch.vmap(measure, in_dims=(0, None))(clients[0], y[:20])[1], measure(clients[0][1], y[:20])
        )


def test_counts_stay_exact_where_float32_does_not() -> None:
    many = torch.full((2, 2), 2**24)
    logits, y = torch.tensor([[1.0, 0.0]]), torch.tensor([0])
    assert (many + confusion(logits, y))[0, 0].item() == 2**24 + 1


def test_calibration_by_hand() -> None:
    chance = torch.tensor([[0.9, 0.1], [0.5, 0.5], [0.2, 0.8]], dtype=torch.float64)
    sums = calibration(chance.log(), torch.tensor([0, 0, 0]), bins=4)
    expected = torch.tensor([[0, 1, 0, 2], [0, 0.5, 0, 1.7], [0, 1, 0, 1]], dtype=torch.float64)
    torch.testing.assert_close(sums, expected)
    assert expected_calibration_error(sums) == pytest.approx((0.5 + 0.7) / 3)


@settings(deadline=None)
@given(st.integers(0, 10**6), st.integers(1, 80), st.integers(1, 20))
def test_calibration_error_equals_a_direct_computation(seed: int, count: int, bins: int) -> None:
    logits, y = samples(seed, count, 5)
    error = expected_calibration_error(calibration(logits, y, bins=bins))
    assert error == pytest.approx(direct_calibration_error(logits, y, bins), abs=1e-12)


def test_full_confidence_falls_into_the_last_bin_and_nan_into_the_first() -> None:
    logits = torch.tensor([[1e4, 0.0], [torch.nan, 0.0]])
    assert calibration(logits, torch.tensor([0, 1]), bins=3).tolist() == [[1, 0, 1], [0, 0, 1], [0, 0, 1]]


def test_cross_entropy_by_hand() -> None:
    chance = torch.tensor([[0.5, 0.5], [0.25, 0.75], [0.1, 0.9]])
    sums = cross_entropies(
        chance.log(), torch.tensor([0, 0, -1]), torch.tensor([1, 1, 0])
    )  # padding: any label
    assert sums.tolist() == pytest.approx([2, math.log(2) + math.log(4)])
    assert mean_cross_entropy(sums) == pytest.approx(1.5 * math.log(2))


def test_a_model_that_diverged_has_no_cross_entropy_and_neither_has_one_without_samples() -> None:
    assert mean_cross_entropy(cross_entropies(torch.tensor([[torch.nan, 0.0]]), torch.tensor([0]))) is None
    assert mean_cross_entropy(torch.zeros(2)) is None


def test_no_samples_have_no_calibration_error() -> None:
    assert expected_calibration_error(torch.zeros(3, 15)) is None
