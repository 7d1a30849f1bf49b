"""Tests, corrections and effects against scipy, published examples and enumeration."""

from __future__ import annotations

import itertools

import numpy as np
import pytest
from demsar import AUC
from hypothesis import given
from hypothesis import strategies as st
from scipy import stats

from counterpoise.results.statistics import (
    cohen_dz,
    fewest_pairs,
    friedman,
    holm,
    iman_davenport,
    nemenyi_difference,
    rank_blocks,
    signed_rank,
)
from counterpoise.results.student import mean_interval

ROUNDING_FIRST_BASE = """
5.40 5.50 5.55  5.85 5.70 5.75  5.20 5.60 5.50  5.55 5.50 5.40  5.90 5.85 5.70  5.45 5.55 5.60
5.40 5.40 5.35  5.45 5.50 5.35  5.25 5.15 5.00  5.85 5.80 5.70  5.25 5.20 5.10  5.65 5.55 5.45
5.60 5.35 5.45  5.05 5.00 4.95  5.50 5.50 5.40  5.45 5.55 5.50  5.55 5.55 5.35  5.45 5.50 5.55
5.50 5.45 5.25  5.65 5.60 5.40  5.70 5.65 5.55  6.30 6.30 6.25
"""  # Hollander and Wolfe, Nonparametric Statistical Methods, 1973, pages 140 to 146

small_whole_numbers = st.lists(st.integers(-4, 4), min_size=1, max_size=9)


def test_wilcoxon_of_demsars_example() -> None:
    found = signed_rank(list(AUC[:, 1] - AUC[:, 0]))
    assert found.statistic == 12  # R- = 7 + 3.5 + 1.5, R+ = 93
    assert found.rank_biserial == pytest.approx((93 - 12) / 105)
    assert found.informative == 12
    assert found.p < 0.05  # the paper rejects: 12 is below the critical value 21


@given(small_whole_numbers)
def test_p_is_the_share_of_signs_at_least_as_one_sided(differences: list[int]) -> None:
    ranks = stats.rankdata(np.abs(differences))
    signs = np.array(list(itertools.product((-1, 1), repeat=len(differences)))) * (np.array(differences) != 0)
    found = abs(np.sign(differences) @ ranks)
    assert signed_rank(differences).p == pytest.approx((np.abs(signs @ ranks) >= found - 1e-9).mean())


@pytest.mark.parametrize("count", [1, 2, 5, 6, 13, 30, 50])
def test_without_ties_the_p_value_is_scipys(count: int) -> None:
    rng = np.random.default_rng(count)
    for shift in (0.0, 0.4, -0.8):
        differences = rng.normal(shift, 1, count)
        assert signed_rank(list(differences)).p == pytest.approx(
            stats.wilcoxon(differences).pvalue, abs=1e-12
        )


def test_with_ties_and_zeros_statistic_and_p_are_scipys() -> None:
    differences = [0.0, 0.0, 2.0, 1.0, 1.0, -1.0, 3.0]
    theirs = stats.wilcoxon(differences, zero_method="zsplit", method=stats.PermutationMethod())
    mine = signed_rank(differences)
    assert (
        mine.statistic == theirs.statistic == 5.5
    )  # ranks 1.5 1.5 6 4 4 4 7: 4 below, half of 3 for the zeros
    assert mine.p == pytest.approx(theirs.pvalue)


@pytest.mark.parametrize("count", range(1, 20))
def test_the_smallest_p_of_n_pairs(count: int) -> None:
    assert signed_rank(list(range(1, count + 1))).p == pytest.approx(2.0 ** (1 - count))
    assert (2.0 ** (1 - count) < 0.05) == (count >= fewest_pairs())


@pytest.mark.parametrize("tests", range(1, 40))
def test_fewest_pairs_after_holm_is_the_first_number_that_suffices(tests: int) -> None:
    enough = fewest_pairs(tests)
    assert tests * 2.0 ** (1 - enough) < 0.05 <= tests * 2.0 ** (2 - enough)


def test_no_difference_at_all_is_no_evidence() -> None:
    found = signed_rank([0.0, 0.0, 0.0])
    assert (found.p, found.rank_biserial, found.informative) == (1.0, 0.0, 0)


def test_noise_of_the_last_bit_is_no_difference() -> None:
    assert signed_rank([(0.1 + 0.2) - 0.3] * 8).p == 1.0
    same = [0.3 - 0.2, 0.1, 0.2 - 0.1, -(0.4 - 0.3)]  # all of one size
    assert signed_rank(same).rank_biserial == pytest.approx(0.5)


@given(small_whole_numbers)
def test_exchange_of_the_two_turns_the_sign_alone(differences: list[int]) -> None:
    one, other = signed_rank(differences), signed_rank([-d for d in differences])
    assert (one.statistic, one.p) == (other.statistic, other.p)
    assert one.rank_biserial == -other.rank_biserial
    assert -1 <= one.rank_biserial <= 1


def test_holm_by_hand() -> None:
    # 4 x 0.005, 3 x 0.01, 2 x 0.03, then 0.04 is lifted to the one before
    assert holm([0.01, 0.04, 0.03, 0.005]) == pytest.approx([0.03, 0.06, 0.06, 0.02])
    assert holm([0.7, 0.6]) == [1.0, 1.0]
    assert holm([]) == []


def test_holm_of_demsars_example() -> None:
    """Against C4.5, z = (3.143 - rank) / sqrt(4 x 5 / (6 x 14)): the paper rejects 0.016 and 0.019, not 0.607."""
    ranks = rank_blocks(AUC).mean(axis=0)
    p_values = 2 * stats.norm.sf((ranks[0] - ranks[1:]) / (4 * 5 / (6 * 14)) ** 0.5)
    assert p_values == pytest.approx([0.019, 0.607, 0.016], abs=2e-3)
    assert [p < 0.05 for p in holm(list(p_values))] == [True, False, True]


@given(st.lists(st.floats(0, 1), min_size=1, max_size=12))
def test_holm_rejects_step_by_step(p_values: list[float]) -> None:
    rejected, order = set(), sorted(range(len(p_values)), key=p_values.__getitem__)
    for step, place in enumerate(order):
        if (len(p_values) - step) * p_values[place] >= 0.05:
            break
        rejected.add(place)
    assert {place for place, p in enumerate(holm(p_values)) if p < 0.05} == rejected


def test_mean_interval_is_scipys() -> None:
    differences = [0.01, 0.03, -0.02, 0.05]
    low, high = stats.ttest_1samp(differences, 0).confidence_interval()
    assert mean_interval(differences) == pytest.approx((low, high))
    assert mean_interval([0.2, 0.2]) == pytest.approx((0.2, 0.2))
    assert mean_interval([0.2]) is None


def test_cohens_dz_by_hand() -> None:
    assert cohen_dz([1.0, 2.0, 3.0]) == pytest.approx(2.0)
    assert cohen_dz([0.1, 0.3 - 0.2]) is None  # no spread but rounding
    assert cohen_dz([0.1]) is None


def test_ranks_of_demsars_example() -> None:
    assert rank_blocks(AUC).mean(axis=0).round(3) == pytest.approx([3.143, 2.000, 2.893, 1.964])


def test_friedman_of_demsars_example() -> None:
    """The paper's formula leaves ties out: 12 N / (k (k + 1)) (sum of squared ranks - k (k + 1)^2 / 4) = 9.28."""
    blocks, methods = AUC.shape
    ranks = rank_blocks(AUC)
    plain = (
        12
        * blocks
        / (methods * (methods + 1))
        * ((ranks.mean(axis=0) ** 2).sum() - methods * (methods + 1) ** 2 / 4)
    )
    assert plain == pytest.approx(9.28, abs=0.005)
    # ties: iris, lung cancer and primary tumor share two ranks, mushroom four: 3 (2^3 - 2) + (4^3 - 4) = 78
    correction = 1 - 78 / (blocks * methods * (methods**2 - 1))
    assert friedman(AUC).statistic == pytest.approx(plain / correction)


def test_iman_davenport_of_demsars_example() -> None:
    statistic, p = iman_davenport(9.28, 14, 4)
    assert statistic == pytest.approx(3.69, abs=0.005)
    assert p is not None
    assert 0.01 < p < 0.05  # the paper: above the critical value 2.85 of F(3, 39)


def test_friedman_of_a_textbook() -> None:
    found = friedman(np.array(ROUNDING_FIRST_BASE.split(), float).reshape(22, 3))
    assert found.statistic == pytest.approx(11.143, abs=0.0005)
    assert found.p == pytest.approx(0.003805, abs=5e-7)


def test_iman_davenport_is_the_analysis_of_variance_of_ranks() -> None:
    scores = np.random.default_rng(0).integers(0, 4, (9, 4)).astype(float)  # with ties
    ranks = rank_blocks(scores)
    between = 9 * ((ranks.mean(axis=0) - 2.5) ** 2).sum()
    within = ((ranks - 2.5) ** 2).sum() - between  # blocks have no sum of squares: their mean rank is 2.5
    assert friedman(scores).f == pytest.approx((between / 3) / (within / 24))


def test_friedman_at_its_limits() -> None:
    assert friedman(np.ones((5, 4))) == (0.0, 1.0, 0.0, 1.0)
    agreed = friedman(np.tile([3.0, 2.0, 1.0], (4, 1)))
    assert agreed.statistic == pytest.approx(8)  # N (k - 1)
    assert (agreed.f, agreed.f_p) == (None, None)


@pytest.mark.parametrize(
    ("methods", "critical"),
    [
        (2, 1.960),
        (3, 2.343),
        (4, 2.569),
        (5, 2.728),
        (6, 2.850),
        (7, 2.949),
        (8, 3.031),
        (9, 3.102),
        (10, 3.164),
    ],
)
def test_nemenyi_has_the_critical_values_of_demsars_table(methods: int, critical: float) -> None:
    assert nemenyi_difference(methods, 14) == pytest.approx(
        critical * (methods * (methods + 1) / (6 * 14)) ** 0.5, rel=5e-4
    )


def test_nemenyi_of_demsars_example() -> None:
    assert nemenyi_difference(4, 14) == pytest.approx(1.25, abs=0.005)
