"""Interval and p of one test with one correction: they never contradict, by hand, by brute force, over random cases."""

from __future__ import annotations

import itertools

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from made_runs import made_run, paired_runs
from scipy import stats

from counterpoise.report.render.verdict_table import verdict_caption
from counterpoise.results.comparison import compare_results
from counterpoise.results.paired import PairedTest
from counterpoise.results.results import RunResult
from counterpoise.results.statistics import ALPHA, holm, holm_factors
from counterpoise.results.student import mean_interval, mean_p
from counterpoise.results.verdicts import judge
from counterpoise.results.words import bare_p, show_interval, show_p

SIGNS = np.array(list(itertools.product((-1, 1), repeat=9)))
TEN = [0.6, -0.2, 1.1, 0.9, 2.3, 0.4, 1.7, -0.5, 3.1, 0.8]

ties = st.lists(st.integers(-3, 5).map(lambda number: number / 50), min_size=1, max_size=9)
smooth = st.lists(st.floats(-0.3, 0.5, allow_subnormal=False), min_size=1, max_size=9)
family = st.lists(ties | smooth, min_size=1, max_size=5)
overlap = st.none() | st.sampled_from([0.1, 0.25, 1.0])


def excludes_zero(interval: tuple[float, float] | None) -> bool:
    return interval is not None and (interval[0] > 0 or interval[1] < 0)


@settings(deadline=None)
@given(family, overlap)
def test_the_interval_excludes_zero_exactly_where_the_corrected_p_is_below_alpha(
    differences: list[list[float]], share: float | None
) -> None:
    tests = [PairedTest(values, share) for values in differences]
    p_values = [test.p for test in tests]
    for test, adjusted, factor in zip(tests, holm(p_values), holm_factors(p_values), strict=True):
        interval = test.interval(factor)
        assert excludes_zero(interval) == (adjusted < ALPHA)
        assert interval is None or interval[0] <= interval[1]


@settings(deadline=None, max_examples=50)
@given(st.lists(st.lists(st.integers(-3, 6), min_size=7, max_size=7), min_size=1, max_size=4))
def test_in_tables_too(raised: list[list[int]]) -> None:
    base = [0.5 + seed / 1000 for seed in range(7)]
    methods = {
        name: [score + by / 100 for score, by in zip(base, gains, strict=True)]
        for name, gains in zip(("scaffold", "fedcm", "feddyn", "fedprox"), raised, strict=False)
    }
    for verdict in compare_results(paired_runs({"fedavg": base, **methods})).verdicts:
        assert excludes_zero(verdict.interval) == (verdict.adjusted < ALPHA)
        assert excludes_zero(verdict.interval) == (verdict.verdict != "no evidence")
        if excludes_zero(verdict.interval):
            assert verdict.interval is not None
            assert (verdict.interval[0] > 0) == (verdict.verdict == "better")


def test_ten_differences_by_hand() -> None:
    """Of ten, P(T <= 8) = 25 / 1024 is the last below 2.5 %: the bounds are the 9th of the 55 averages from either end."""
    walsh = sorted((a + b) / 2 for a, b in itertools.combinations_with_replacement(TEN, 2))
    interval = PairedTest(TEN).interval(1)
    assert interval == pytest.approx((walsh[8], walsh[-9]))
    assert interval == pytest.approx((0.2, 1.85))
    assert (
        PairedTest(TEN).p == 14 / 1024
    )  # ranks 1 and 3 are below: 0, 1, 2, 3, 1 + 2, 4, 1 + 3 add up to 4 or less


def test_a_stricter_correction_gives_a_wider_interval() -> None:
    first, second, third = (PairedTest(TEN).interval(factor) for factor in (1, 5, 20))
    assert first is not None
    assert second is not None
    assert second[0] <= 0 < first[0] < first[1] < second[1]  # 5 x 14 / 1024 is above 5 %
    assert third == (min(TEN), max(TEN))  # 20 x 2 / 1024 is below 5 % yet


@settings(max_examples=30, deadline=None)
@given(
    st.lists(st.integers(-3, 5) | st.integers(-40, 80), min_size=6, max_size=9), st.sampled_from([1, 2, 5])
)
def test_the_bounds_are_those_of_a_brute_force_over_shifts(differences: list[int], factor: int) -> None:
    """Quarters hold every average of two whole numbers, and a point between any two averages."""
    interval = PairedTest(differences).interval(factor)
    kept = [shift / 4 for shift in range(-200, 361) if factor * sign_p(differences, shift / 4) >= ALPHA]
    if interval is None:
        assert len(kept) == 561
    elif not min(kept) <= 0 <= max(kept) or not excludes_zero(interval):
        assert interval[0] <= min(kept) <= interval[0] + 0.25
        assert interval[1] - 0.25 <= max(kept) <= interval[1]


def sign_p(differences: list[int], shift: float) -> float:
    """The share of all signs whose sum of ranks is at least as one-sided."""
    shifted = np.array(differences) - shift
    ranks = stats.rankdata(np.abs(shifted)) * (shifted != 0)
    signs = SIGNS[: 2 ** len(shifted), -len(shifted) :]
    return float((np.abs(signs @ ranks) >= abs(np.sign(shifted) @ ranks) - 1e-9).mean())


@pytest.mark.parametrize("pairs", [1, 2, 3, 5])
def test_pairs_that_cannot_reach_alpha_bound_nothing(pairs: int) -> None:
    assert PairedTest([0.1 + place / 100 for place in range(pairs)]).interval(1) is None


def test_six_pairs_bound_the_difference_by_their_range_and_nothing_after_a_correction() -> None:
    six = [0.1, 0.12, 0.2, 0.14, 0.3, 0.11]
    assert PairedTest(six).interval(1) == (0.1, 0.3)
    assert PairedTest(six).interval(2) is None


def test_equal_pairs_leave_the_difference_zero() -> None:
    assert PairedTest([0.0] * 6).interval(1) == (0.0, 0.0)


def test_ties_may_leave_zero_as_an_open_bound() -> None:
    """Two zeros of eight: p is 2 / 2^6 at zero, and above it 2 x 5 / 2^8, as of ranks 1.5, 1.5, 3, ... 8 a sum of 3 or less."""
    test = PairedTest([0, 0, 1, 2, 3, 4, 5, 6])
    assert test.p == 1 / 32
    interval = test.interval(1)
    assert interval is not None
    assert 0 < interval[0] <= 0.5


def test_holms_factors_by_hand() -> None:
    # 4 x 0.005 and 3 x 0.01 pass, 2 x 0.03 does not, and stops the last one too
    assert holm_factors([0.01, 0.04, 0.03, 0.005]) == [3, 2, 2, 4]
    assert holm_factors([0.001, 0.002]) == [2, 1]
    assert holm_factors([0.9]) == [1]


def test_the_corrected_test_of_splits_by_hand() -> None:
    differences = [0.02, 0.04, 0.06]  # deviation 0.02; error 0.02 sqrt(1 / 3 + 1 / 4)
    error = 0.02 * (7 / 12) ** 0.5
    assert mean_p(differences, 0.25) == pytest.approx(2 * stats.t.sf(0.04 / error, 2))
    assert PairedTest(differences, 0.25).interval(1) == pytest.approx(
        (0.04 - 4.3026527 * error, 0.04 + 4.3026527 * error)
    )
    assert mean_p(differences) == pytest.approx(stats.ttest_1samp(differences, 0).pvalue)
    assert mean_p([0.3], 0.25) == mean_p([0.0, 0.0], 0.25) == 1.0
    assert mean_interval([0.3], 0.25) is None


def test_a_mean_outside_its_interval_is_explained() -> None:
    base = [0.1 + seed / 1000 for seed in range(20)]
    scores = {"fedavg": base, "scaffold": [*(score + 0.01 for score in base[:-1]), 0.9]}
    [verdict] = compare_results(paired_runs(scores)).verdicts
    assert verdict.interval is not None
    assert verdict.difference > verdict.interval[1]
    assert "a few pairs differ far more than the others" in verdict.limits


@given(st.floats(1e-9, 1))
def test_a_p_is_not_rounded_over_alpha(p: float) -> None:
    text = bare_p(p).removeprefix("< ")
    assert (float(text) < ALPHA) == (p < ALPHA)
    assert show_p(p).startswith("p < 0.001" if p < 0.001 else "p = ")


@pytest.mark.parametrize(
    ("interval", "text"),
    [
        ((0.0123, 0.2), "+1.2 to +20.0"),
        ((0.0002, 0.02), "+0.02 to +2.0"),
        ((5e-324, 0.02), "just above 0 to +2.0"),
        ((-0.02, -5e-324), "-2.0 to just below 0"),
        ((-0.0001, 0.0), "-0.01 to 0.0"),
    ],
)
def test_a_bound_is_not_rounded_to_zero(interval: tuple[float, float], text: str) -> None:
    assert show_interval(interval) == text


def split_runs(key: str, **more: int) -> list[RunResult]:
    """Six seeds of two methods, each with test rows of its own: 20 of 100."""
    base, better = [0.5, 0.52, 0.51, 0.49, 0.53, 0.5], [0.56, 0.57, 0.58, 0.52, 0.60, 0.57]
    made = [
        made_run(method, seed, score, data={"name": "table", key: seed, **more})
        for method, scores in (("fedavg", base), ("scaffold", better))
        for seed, score in enumerate(scores)
    ]
    data = {"classes": ["a", "b"], "class_counts": None}
    record = {"data": data, "samples": [50, 30], "clients": None}
    return [
        run._replace(record=record, summary={"seed": run.seed, "confusion": [[8, 2], [1, 9]]}) for run in made
    ]


@pytest.mark.parametrize(("key", "more"), [("seed", {}), ("fold", {"folds": 5})])
def test_seeds_that_split_anew_are_tested_with_the_correction_and_the_table_says_so(
    key: str, more: dict[str, int]
) -> None:
    found = compare_results(split_runs(key, **more))
    [verdict] = found.verdicts
    differences = [0.06, 0.05, 0.07, 0.03, 0.07, 0.07]
    error = np.std(differences, ddof=1) * (1 / 6 + 20 / 80) ** 0.5
    assert verdict.test == "corrected t"
    assert verdict.p == pytest.approx(2 * stats.t.sf(np.mean(differences) / error, 5))
    assert verdict.p > stats.ttest_1samp(differences, 0).pvalue
    assert verdict.verdict == "better"
    [note] = found.notes
    assert "0.25 test samples per training sample" in note
    assert "Nadeau and Bengio" in verdict_caption(found)
    assert "Wilcoxon" not in verdict_caption(found)


def test_seeds_on_one_test_set_keep_the_test_of_ranks() -> None:
    found = compare_results(paired_runs({"fedavg": [0.5] * 6, "scaffold": [0.6] * 6}))
    assert found.verdicts[0].test == "signed ranks"
    assert "Nadeau" not in verdict_caption(found)


def test_over_few_problems_the_correction_is_that_of_each_split_by_their_number() -> None:
    scores = {("a", "m"): {0: 0.6, 1: 0.7, 2: 0.8}, ("a", "b"): {0: 0.5, 1: 0.5, 2: 0.5}}
    scores |= {("c", method): values for (_, method), values in list(scores.items())}
    verdict = judge(scores, ["a", "c"], ["b", "m"], "b", "accuracy", {"a": 0.2, "c": 0.3})[-1]
    differences = [0.1, 0.2, 0.3] * 2
    error = np.std(differences, ddof=1) * (1 / 6 + 0.25 / 2) ** 0.5
    assert verdict.p == pytest.approx(2 * stats.t.sf(0.2 / error, 5))
