"""Scores by hand and against scikit-learn; what has no support has no score."""

from __future__ import annotations

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from sklearn import metrics as sk

from counterpoise import metrics
from counterpoise.errors import ConfigError
from counterpoise.metrics.scores import Worst

THREE = [[6, 2, 0], [1, 3, 0], [4, 0, 0]]  # support 8, 4, 4; predicted 11, 5, 0; hits 6, 3, 0
NO_SUPPORT = [[3, 1, 1], [0, 4, 1], [0, 0, 0]]  # class 2 is predicted twice and never true

labels = st.integers(1, 60).flatmap(
    lambda n: st.tuples(*(st.lists(st.integers(0, 4), min_size=n, max_size=n) for _ in range(2)))
)


def test_three_classes_by_hand() -> None:
    assert metrics.per_class_recall(THREE) == [0.75, 0.75, 0.0]
    assert metrics.per_class_precision(THREE) == [6 / 11, 0.6, 0.0]
    assert metrics.per_class_f1(THREE) == [12 / 19, 6 / 9, 0.0]
    assert metrics.accuracy(THREE) == 9 / 16
    assert metrics.balanced_accuracy(THREE) == 0.5
    assert metrics.macro_f1(THREE) == pytest.approx((12 / 19 + 2 / 3) / 3)
    assert metrics.weighted_f1(THREE) == pytest.approx((8 * 12 / 19 + 4 * 2 / 3) / 16)
    assert metrics.g_mean(THREE) == 0.0
    assert metrics.worst_class(THREE) == Worst(2, 0.0)


def test_matthews_by_hand() -> None:
    # 16 samples, 9 hits; sum t p = 8 * 11 + 4 * 5 = 108; sum t^2 = 96, sum p^2 = 146
    assert metrics.matthews(THREE) == pytest.approx((16 * 9 - 108) / ((256 - 96) * (256 - 146)) ** 0.5)
    assert metrics.matthews([[2, 0], [0, 3]]) == 1
    assert metrics.matthews([[0, 2], [3, 0]]) == -1
    assert metrics.matthews([[2, 0], [3, 0]]) == 0  # one answer to everything is chance
    assert metrics.matthews([[2, 1], [0, 0]]) is None  # one class alone correlates with nothing


@given(labels)
def test_matthews_equals_scikit_learn(pair: tuple[list[int], list[int]]) -> None:
    y, guess = pair
    counts = sk.confusion_matrix(y, guess, labels=range(5))
    expected = sk.matthews_corrcoef(y, guess) if len(set(y)) > 1 else None
    assert metrics.matthews(counts) == (None if expected is None else pytest.approx(expected))


def test_a_class_without_support_has_no_score_and_no_part_in_a_mean() -> None:
    assert metrics.per_class_recall(NO_SUPPORT) == [0.6, 0.8, None]
    assert metrics.per_class_precision(NO_SUPPORT) == [1.0, 0.8, None]
    assert metrics.per_class_f1(NO_SUPPORT) == [6 / 8, 8 / 10, None]
    assert metrics.balanced_accuracy(NO_SUPPORT) == pytest.approx(0.7)
    assert metrics.macro_f1(NO_SUPPORT) == pytest.approx(0.775)
    assert metrics.g_mean(NO_SUPPORT) == pytest.approx(0.48**0.5)
    assert metrics.worst_class(NO_SUPPORT) == Worst(0, 0.6)


def test_no_samples_have_no_scores() -> None:
    nothing = np.zeros((3, 3), dtype=np.int64)
    overall = ("accuracy", "balanced_accuracy", "macro_f1", "weighted_f1", "g_mean", "worst_class")
    assert {getattr(metrics, name)(nothing) for name in overall} == {None}
    assert metrics.per_class_f1(nothing) == [None] * 3


@settings(deadline=None)
@given(labels)
def test_scores_equal_scikit_learn(pair: tuple[list[int], list[int]]) -> None:
    true, predicted = pair
    counts = sk.confusion_matrix(true, predicted, labels=range(5))
    present = sorted(set(true))
    precision, recall, f1, _ = sk.precision_recall_fscore_support(
        true, predicted, labels=present, zero_division=0
    )
    for ours, theirs in (
        (metrics.per_class_precision(counts), precision),
        (metrics.per_class_recall(counts), recall),
        (metrics.per_class_f1(counts), f1),
    ):
        assert [ours[c] for c in present] == pytest.approx(theirs)
        assert all(ours[c] is None for c in range(5) if c not in present)
    assert metrics.accuracy(counts) == pytest.approx(sk.accuracy_score(true, predicted))
    assert metrics.balanced_accuracy(counts) == pytest.approx(recall.mean())
    assert metrics.macro_f1(counts) == pytest.approx(f1.mean())
    assert metrics.weighted_f1(counts) == pytest.approx(
        sk.f1_score(true, predicted, average="weighted", zero_division=0)
    )
    assert metrics.g_mean(counts) == pytest.approx(recall.prod() ** (1 / len(present)))


def test_g_mean_of_many_poor_classes_does_not_underflow() -> None:
    counts = torch.eye(2000) + 99 * torch.eye(2000).roll(1, 1)
    assert metrics.g_mean(counts) == pytest.approx(0.01)


def test_tensors_arrays_and_lists_score_alike() -> None:
    scored = [metrics.macro_f1(kind(THREE)) for kind in (list, np.array, torch.tensor)]
    assert scored[0] == scored[1] == scored[2]


def test_weighted_score_by_hand() -> None:
    # class 0 is free of defects: its precision 6/11 weighs 1, the recalls 0.75 and 0 of the defects weigh 2 and 1
    score = metrics.weighted_score(THREE, recall_weights=[0, 2, 1], precision_weights=[1, 0, 0])
    assert score == pytest.approx((2 * 0.75 + 0 + 6 / 11) / 4)


def test_weighted_score_leaves_out_classes_without_support() -> None:
    assert metrics.weighted_score(NO_SUPPORT, [1, 0, 5], [0, 1, 5]) == pytest.approx((0.6 + 0.8) / 2)
    assert metrics.weighted_score(NO_SUPPORT, [0, 0, 5], [0, 0, 5]) is None


@pytest.mark.parametrize("weights", [[1, 1], [1, 1, -1], [1, 1, float("nan")]])
def test_weighted_score_refuses_wrong_weights(weights: list[float]) -> None:
    with pytest.raises(ConfigError, match=r"precision_weights must be 3 numbers"):
        metrics.weighted_score(THREE, [1, 1, 1], weights)


def test_clients_without_test_data_are_left_out() -> None:
    clients = torch.tensor([[[4, 0], [0, 4]], [[0, 0], [0, 0]], [[1, 1], [0, 2]], [[3, 1], [0, 0]]])
    assert metrics.worst_client(clients) == Worst(2, 0.75)  # the first of two equals
    assert metrics.mean_client_balanced_accuracy(clients) == pytest.approx((1 + 0.75 + 0.75) / 3)
    assert metrics.worst_client(clients[1:2]) is None
    assert metrics.mean_client_balanced_accuracy(clients[1:2]) is None


@pytest.mark.parametrize("shape", [(3, 4), (2, 3, 3)])
def test_a_matrix_that_is_not_square_is_refused(shape: tuple[int, ...]) -> None:
    with pytest.raises(ConfigError, match=r"confusion must .*\[C, C\]"):
        metrics.accuracy(torch.ones(shape))
