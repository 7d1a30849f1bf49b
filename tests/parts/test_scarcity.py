"""FedWCM's arithmetic: gaps of classes, scores of clients, weights by temperature, and the share of the own gradient."""

from __future__ import annotations

import math
from random import Random

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from torch import Tensor

from counterpoise.core.part import ClientData
from counterpoise.parts.scarcity import (
    Score,
    adaptive_alpha,
    class_gaps,
    client_score,
    discrepancy,
    fixed_point_shares,
    mean_score,
    tilt,
)

COUNTS = st.lists(st.integers(0, 10_000), min_size=2, max_size=12).filter(any)
CLIENTS = st.integers(2, 6).flatmap(
    lambda classes: st.lists(
        st.lists(st.integers(0, 50), min_size=classes, max_size=classes).filter(any), min_size=1, max_size=8
    )
)


def _long_tail(factor: float, classes: int = 10) -> Tensor:
    return torch.tensor([int(5000 * factor ** (c / (classes - 1))) for c in range(classes)])


def _uniform(classes: int) -> Tensor:
    return torch.full((classes,), 1 / classes, dtype=torch.float64)


def _client(counts: list[int]) -> ClientData:
    labels = torch.repeat_interleave(torch.tensor(counts))
    return ClientData(torch.arange(len(labels)), labels)


@pytest.mark.parametrize(
    ("factor", "expected"), [(0.5, 0.190), (0.1, 0.589), (0.05, 0.727), (0.01, 0.979), (1.0, 0.0)]
)
def test_discrepancy_of_cifar_10_with_a_long_tail(factor: float, expected: float) -> None:
    assert float(discrepancy(_long_tail(factor), _uniform(10))) == pytest.approx(expected, abs=1e-3)


@pytest.mark.parametrize(("factor", "expected"), [(0.5, 0.256), (0.1, 0.50), (0.05, 0.565), (0.01, 0.66)])
def test_alpha_of_an_average_round_rises_with_the_imbalance(factor: float, expected: float) -> None:
    size = float(discrepancy(_long_tail(factor), _uniform(10)))
    assert adaptive_alpha(size, 1.0) == pytest.approx(expected, abs=5e-3)
    assert adaptive_alpha(0.589 / 10, 1.0) == pytest.approx(0.15, abs=5e-3)  # with the exponent as printed


def test_the_rarest_class_scores_highest_and_the_head_nothing() -> None:
    gaps = class_gaps(_long_tail(0.1), _uniform(10), "positive")
    only = [float(client_score(gaps, torch.eye(10)[c] * 30)) for c in range(10)]
    assert max(only) == only[9] > only[8]
    assert only[0] == 0
    assert only[9] == pytest.approx(0.0755, abs=1e-3)
    rng = np.random.default_rng(0)
    mixed = torch.from_numpy(rng.integers(0, 30, (200, 10)))
    assert all(float(client_score(gaps, counts)) < only[9] for counts in mixed)


def test_the_printed_absolute_value_favours_the_head() -> None:
    gaps = class_gaps(_long_tail(0.1), _uniform(10), "abs")
    assert int(gaps.argmax()) == 0
    assert float(gaps[0]) == pytest.approx(0.145, abs=1e-3)


def test_a_score_by_hand() -> None:
    gaps = class_gaps(torch.tensor([6, 3, 1]), torch.tensor([0.2, 0.3, 0.5], dtype=torch.float64), "positive")
    assert gaps.tolist() == pytest.approx([0, 0, 0.4])
    assert float(client_score(gaps, torch.tensor([1, 0, 3]))) == pytest.approx(0.3)
    assert float(client_score(gaps, torch.tensor([0, 0, 0]))) == 0


def test_weights_by_hand_multiply_what_was_there() -> None:
    scores, base = (torch.tensor(given, dtype=torch.float64) for given in ([0, 0.1, 0.3], [0.5, 0.3, 0.2]))
    wanted = np.array([0.5, 0.3, 0.2]) * np.exp(7 * np.array([0.0, 0.1, 0.3]))
    np.testing.assert_allclose(tilt(base, scores, 7.0), wanted / wanted.sum(), rtol=1e-14)


def test_a_high_temperature_leaves_the_weights_and_a_low_one_picks_the_highest_score() -> None:
    scores, base = torch.tensor([0.02, 0.3, 0.1]).double(), torch.tensor([0.5, 0.3, 0.2]).double()
    assert torch.equal(tilt(base, scores, 0.0), base)
    assert torch.allclose(tilt(base, scores, 1e-9), base, atol=1e-9)
    assert tilt(base, scores, 1e12).tolist() == [0, 1, 0]
    assert tilt(base, scores, math.inf).tolist() == [0, 1, 0]


def test_where_the_highest_score_weighs_nothing_somebody_is_left() -> None:
    base = torch.tensor([0.4, 0.0, 0.6]).double()
    assert torch.equal(tilt(base, torch.tensor([0.1, 0.9, 0.2]).double(), math.inf), base)


@given(COUNTS, st.sampled_from(["positive", "abs"]), st.randoms(use_true_random=False))
def test_other_ids_of_the_classes_only_reorder_the_gaps(
    counts: list[int], score: Score, random: Random
) -> None:
    order = list(range(len(counts)))
    random.shuffle(order)
    known, uniform = torch.tensor(counts), _uniform(len(counts))
    gaps = class_gaps(known, uniform, score)
    assert torch.equal(class_gaps(known[order], uniform, score), gaps[order])
    assert float(discrepancy(known[order], uniform)) == pytest.approx(
        float(discrepancy(known, uniform)), abs=1e-12
    )
    assert 0 <= float(discrepancy(known, uniform)) <= 2


@given(st.lists(st.floats(0, 1), min_size=1, max_size=30), st.floats(0, 1e6))
def test_weights_sum_to_one_and_follow_the_scores(scores: list[float], sharpness: float) -> None:
    given_scores = torch.tensor(scores, dtype=torch.float64)
    found = tilt(torch.full_like(given_scores, 1 / len(scores)), given_scores, sharpness)
    assert float(found.sum()) == pytest.approx(1, abs=1e-12)
    assert bool((found >= 0).all())
    ordered = found[given_scores.argsort()]
    assert bool((ordered[1:] >= ordered[:-1] - 1e-15).all())


@given(st.floats(0, 2), st.floats(0, 1e6))
def test_alpha_stays_between_a_tenth_and_one(size: float, q: float) -> None:
    assert 0.1 <= adaptive_alpha(size, q) <= 1.0


@given(CLIENTS)
def test_the_sum_of_whole_numbers_gives_the_mean_score_of_all_clients(clients: list[list[int]]) -> None:
    known = torch.tensor(clients)
    gaps = class_gaps(known.sum(0), _uniform(known.shape[1]), "positive")
    shares = [fixed_point_shares(_client(counts), known.shape[1]) for counts in clients]
    assert all(one.dtype == torch.int64 for one in shares)
    total = torch.stack(shares).sum(0)
    scores = [sum(g * n for g, n in zip(gaps.tolist(), own, strict=True)) / sum(own) for own in clients]
    assert float(mean_score(gaps, total, len(clients))) == pytest.approx(np.mean(scores), abs=1e-8)
