"""Class weights against numbers worked out by hand, and when the deferred ones switch on."""

from __future__ import annotations

import math
from fractions import Fraction
from itertools import pairwise

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from loss_hooks import batch_of, built, mean_loss, per_sample, start, told, weights_of

from counterpoise.client.round import batch_loss
from counterpoise.core.method import Method
from counterpoise.core.part import Outputs

COUNTS = st.lists(st.integers(0, 10**9), min_size=2, max_size=10).filter(any)


def test_weighted_ce_of_hand_picked_counts() -> None:
    # 1/n = 1, 1/2, 1/4 sums to 7/4; scaled by 12/7 it sums to 3.
    assert weights_of(built("weighted_ce"), [1, 2, 4]) == pytest.approx([12 / 7, 6 / 7, 3 / 7], rel=1e-14)


def test_weights_of_absent_classes_are_zero_and_the_others_sum_to_all_classes() -> None:
    assert weights_of(built("weighted_ce"), [0, 3, 1, 0]) == pytest.approx([0, 1, 3, 0], rel=1e-14)
    assert weights_of(built("weighted_ce"), [0, 9, 0]) == pytest.approx([0, 3, 0], rel=1e-14)


def test_class_balanced_of_hand_picked_counts() -> None:
    # Effective numbers at 1/2: 1, 1.5 and 1.75.
    expected = [1, 2 / 3, 4 / 7]
    scale = 3 / sum(expected)
    found = weights_of(built("class_balanced", beta=0.5), [1, 2, 3])
    assert found == pytest.approx([scale * e for e in expected], rel=1e-14)


def test_class_balanced_at_zero_weighs_all_present_classes_alike() -> None:
    assert weights_of(built("class_balanced", beta=0.0), [1, 50, 7]) == [1, 1, 1]
    assert weights_of(built("class_balanced", beta=0.0), [0, 50, 7]) == [0, 1.5, 1.5]


def test_class_balanced_at_one_is_weighted_ce() -> None:
    counts = [1, 20, 333, 0]
    assert weights_of(built("class_balanced", beta=1.0), counts) == weights_of(built("weighted_ce"), counts)


@pytest.mark.parametrize("distance", [1e-6, 1e-9, 1e-12, 1e-16])
def test_class_balanced_near_one_agrees_with_exact_arithmetic(distance: float) -> None:
    beta, counts = 1 - distance, [1, 20, 333]
    exact = [1 / sum(Fraction(beta) ** i for i in range(n)) for n in counts]
    expected = [float(3 * e / sum(exact)) for e in exact]
    assert weights_of(built("class_balanced", beta=beta), counts) == pytest.approx(expected, rel=1e-9)


@settings(deadline=None, max_examples=100)
@given(COUNTS, st.one_of(st.floats(0, 1), st.sampled_from([0.0, 1.0, 0.9999, 1 - 1e-16, 1e-300])))
def test_weights_are_finite_and_sum_to_the_number_of_classes(counts: list[int], beta: float) -> None:
    found = weights_of(built("class_balanced", beta=beta), counts)
    assert all(w >= 0 and math.isfinite(w) for w in found)
    assert all((w > 0) == (n > 0) for w, n in zip(found, counts, strict=True))
    assert sum(found) == pytest.approx(len(counts), rel=1e-9)


@settings(deadline=None, max_examples=50)
@given(COUNTS, st.floats(0, 1))
def test_a_rarer_class_never_weighs_less(counts: list[int], beta: float) -> None:
    found = weights_of(built("class_balanced", beta=beta), counts)
    present = sorted((n, w) for n, w in zip(counts, found, strict=True) if n)
    assert all(later <= earlier * (1 + 1e-12) for (_, earlier), (_, later) in pairwise(present))


def test_the_batch_loss_is_the_plain_mean_of_weighted_terms() -> None:
    logits = torch.zeros(2, 2, dtype=torch.float64)  # each sample's loss is log 2
    found = mean_loss(built("weighted_ce"), [1, 3], logits, [0, 1])
    assert float(found) == pytest.approx((1.5 + 0.5) / 2 * math.log(2), rel=1e-14)
    assert float(mean_loss(built("weighted_ce"), [1, 3], logits, [1, 1])) == pytest.approx(0.5 * math.log(2))


def test_weights_multiply_any_loss() -> None:
    logits = torch.tensor([[1.0, 0.0], [0.5, 2.0]], dtype=torch.float64)
    focal, weights = built("focal"), built("weighted_ce")
    slots = {"weighted_ce": start(weights, [1, 3]), "focal": {}}
    found = batch_loss(
        Method((weights, focal)), Outputs(logits, logits[:, :0]), batch_of(logits, [0, 1]), slots
    )
    plain = per_sample(focal, [1, 3], logits, [0, 1])
    assert float(found) == pytest.approx(float((1.5 * plain[0] + 0.5 * plain[1]) / 2), rel=1e-14)


@pytest.mark.parametrize("name", ["weighted_ce", "class_balanced"])
def test_global_weights_are_those_of_the_sum_over_clients(name: str) -> None:
    part, clients = built(name, counts="global"), [[5, 1, 0], [0, 3, 0], [4, 0, 1]]
    assert weights_of(part, clients[1], told(part, clients)) == weights_of(built(name), [9, 4, 1])


@pytest.mark.parametrize(
    ("start_at", "rounds", "first"),
    [(0.8, 10, 8), (0.8, 200, 160), (0.5, 3, 2), (0.0, 5, 0), (0.1, 30, 3), (0.55, 100, 55), (0.07, 100, 7)],
)
def test_deferred_weights_switch_on_at_their_share_of_the_rounds(
    start_at: float, rounds: int, first: int
) -> None:
    part = built("deferred_reweighting", start=start_at, beta=0.5)
    clients, own = [[1, 3], [2, 0]], [1, 3]
    on = [weights_of(part, own, told(part, clients, rounds, t)) != [1, 1] for t in range(rounds)]
    assert on == [t >= first for t in range(rounds)]


def test_deferred_weights_never_start_at_one() -> None:
    part = built("deferred_reweighting", start=1.0)
    assert all(weights_of(part, [1, 3], told(part, [[1, 3]], 7, t)) == [1, 1] for t in range(7))


def test_deferred_weights_once_on_are_the_class_balanced_ones() -> None:
    clients = [[5, 1, 0], [0, 3, 0], [4, 0, 1]]
    for counts in ("local", "global"):
        late = built("deferred_reweighting", beta=0.7, counts=counts)
        always = built("class_balanced", beta=0.7, counts=counts)
        found = weights_of(late, clients[0], told(late, clients, 10, 9))
        assert found == weights_of(always, clients[0], told(always, clients))
