"""Methods in order of their ranks, and which of them are not told apart."""

from __future__ import annotations

import numpy as np
import pytest
from demsar import AUC, METHODS
from hypothesis import given
from hypothesis import strategies as st

from counterpoise.results.ranking import groups_within, rank_methods


def test_demsars_example_ends_in_one_group() -> None:
    """The paper: Nemenyi cannot tell them apart, since even the two ends are 1.18 apart and it takes 1.25."""
    found = rank_methods(METHODS, AUC, "problems")
    assert found is not None
    assert found.methods == ("C4.5+m+cf", "C4.5+m", "C4.5+cf", "C4.5")
    assert found.average_ranks == pytest.approx((1.964, 2.000, 2.893, 3.143), abs=5e-4)
    assert found.groups == (found.methods,)
    assert found.differs
    assert (found.blocks, found.unit) == (14, "problems")


def test_groups_are_the_largest_runs_within_the_distance() -> None:
    methods = list("abcdef")
    ranks = [1.0, 1.5, 2.4, 3.0, 4.9, 6.0]
    # b and c lie within the first; d is 1.5 from b, which is not closer than 1.5
    assert groups_within(methods, ranks, 1.5) == (("a", "b", "c"), ("c", "d"), ("e", "f"))
    assert groups_within(methods, ranks, 0.1) == ()
    assert groups_within(methods, ranks, 9.0) == (tuple(methods),)


@given(st.lists(st.floats(1, 9), min_size=2, max_size=9), st.floats(0.01, 9))
def test_two_methods_share_a_group_where_they_are_closer_than_the_distance(
    ranks: list[float], distance: float
) -> None:
    ranks.sort()
    methods = [str(place) for place in range(len(ranks))]
    groups = [set(group) for group in groups_within(methods, ranks, distance)]
    for low in range(len(ranks)):
        for high in range(low + 1, len(ranks)):
            together = any({str(low), str(high)} <= group for group in groups)
            assert together == (ranks[high] - ranks[low] < distance)
    assert not any(one < other for one in groups for other in groups)


def test_where_friedman_finds_nothing_no_two_methods_are_told_apart() -> None:
    found = rank_methods(list("abc"), np.array([[3.0, 2.0, 1.0], [3.0, 2.0, 1.0]]), "seeds")
    assert found is not None
    assert found.p == pytest.approx(np.exp(-2))  # chi squared 4 with 2 degrees of freedom
    assert not found.differs
    assert found.groups == (("a", "b", "c"),)
    assert found.iman_davenport is None


def test_ranks_far_apart_are_not_told_apart_where_friedman_finds_nothing() -> None:
    """Ranks 1.5, four times 3.5, 5.5: the ends are 4 apart and Nemenyi asks 3.77, but chi squared is 9.14 of 11.07."""
    ranks = np.array([[1, 2, 3, 4, 5, 6], [1, 5, 4, 3, 2, 6], [2, 1, 3, 4, 6, 5], [2, 6, 4, 3, 1, 5]])
    found = rank_methods(list("abcdef"), -ranks.astype(float), "seeds")
    assert found is not None
    assert found.average_ranks == (1.5, 3.5, 3.5, 3.5, 3.5, 5.5)
    assert found.friedman == pytest.approx(64 / 7)
    assert found.critical_difference < 4
    assert found.groups == (tuple("abcdef"),)


def test_many_blocks_that_agree_tell_all_apart() -> None:
    found = rank_methods(list("abc"), np.tile([1.0, 3.0, 2.0], (30, 1)), "seeds")
    assert found is not None
    assert found.methods == ("b", "c", "a")
    assert found.average_ranks == (1.0, 2.0, 3.0)
    assert found.groups == ()


@pytest.mark.parametrize("shape", [(5, 2), (1, 5), (0, 3)])
def test_no_ranking_below_three_methods_or_two_blocks(shape: tuple[int, int]) -> None:
    assert rank_methods([str(k) for k in range(shape[1])], np.ones(shape), "seeds") is None
