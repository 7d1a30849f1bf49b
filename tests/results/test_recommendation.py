"""The paragraph that tables open with: which method, what it gains and costs, how sure."""

from __future__ import annotations

from typing import Any

import pytest
from made_runs import made_run, paired_runs

from counterpoise.results.comparison import compare_results
from counterpoise.results.recommendation import opening
from counterpoise.results.results import RunResult

SEVEN = [0.50, 0.52, 0.54, 0.51, 0.53, 0.50, 0.55]
FEW = SEVEN[:3]


def above(scores: list[float], by: float) -> list[float]:
    """Scores better by about so much on every seed."""
    return [score + by + 0.001 * place for place, score in enumerate(scores)]


def with_recall(run: RunResult, recall: float, **cost: Any) -> RunResult:
    """The run with class b as the rarest and this recall of it."""
    record = {"data": {"classes": ["a", "b"], "class_counts": [90, 10]}}
    rows = [row | {"per_class_recall": [0.9, recall]} | cost for row in run.rows]
    return run._replace(record=record, rows=rows)


def test_a_significant_gain_is_recommended_with_high_confidence() -> None:
    [one] = compare_results(paired_runs({"fedavg": SEVEN, "scaffold": above(SEVEN, 0.1)})).recommendations
    assert (one.method, one.leader, one.confidence) == ("scaffold", "scaffold", "high")
    assert one.difference == pytest.approx(0.103)
    assert one.paragraph.startswith(
        "Use scaffold: balanced accuracy +10.3 points against fedavg (95 % interval "
    )


def test_a_gain_on_few_seeds_is_recommended_with_low_confidence_since_the_verdict_is_no_evidence() -> None:
    found = compare_results(paired_runs({"fedavg": FEW, "scaffold": above(FEW, 0.1)}))
    [one] = found.recommendations
    assert (one.method, one.confidence) == ("scaffold", "low")
    assert "too few for the test, which finds no evidence" in one.paragraph
    assert [verdict.verdict for verdict in found.verdicts] == ["no evidence"]


def test_a_gain_that_holm_takes_away_is_recommended_with_fair_confidence_and_says_so() -> None:
    six = SEVEN[:6]
    runs = paired_runs({"fedavg": six, "scaffold": above(six, 0.1), "fedcm": above(six, -0.1)})
    [one] = compare_results(runs).recommendations
    assert (one.method, one.confidence) == ("scaffold", "fair")
    assert "p = 0.031 over 6 pairs, but 0.062 after Holm's correction, which is no evidence" in one.paragraph


def test_a_method_with_evidence_is_recommended_before_one_with_a_better_mean() -> None:
    six = SEVEN[:6]
    wild = [score + gain for score, gain in zip(six, [0.4, -0.1, 0.4, -0.1, 0.4, -0.1], strict=True)]
    runs = paired_runs({"fedavg": six, "fedcm": wild, "fedavgm": above(six, 0.08)})
    [one] = compare_results(runs).recommendations
    assert (one.method, one.leader, one.confidence) == ("fedavgm", "fedavgm", "fair")
    assert one.paragraph.endswith("; fedcm is 6.8 points better in the mean, but with less evidence.")


def test_of_methods_with_the_same_evidence_the_best_mean_is_recommended() -> None:
    gains = {"fedcm": 0.08, "scaffold": 0.12, "fedavgm": 0.1}
    runs = paired_runs(
        {"fedavg": SEVEN * 2} | {method: above(SEVEN * 2, gain) for method, gain in gains.items()}
    )
    [one] = compare_results(runs).recommendations
    assert (one.method, one.confidence) == ("scaffold", "high")
    assert "in the mean" not in one.paragraph


def test_of_gains_that_could_be_chance_the_best_mean_is_the_better_guess() -> None:
    mixed = [0.60, 0.40, 0.62]
    [one] = compare_results(paired_runs({"fedavg": FEW, "scaffold": mixed})).recommendations
    assert (one.method, one.leader, one.confidence) == ("scaffold", "scaffold", "none")
    assert one.paragraph.startswith("Cannot tell: scaffold has the best mean, balanced accuracy +")
    assert " It is the better guess: it gains 2.0 points of accuracy" in one.paragraph


@pytest.mark.parametrize(
    ("gains", "why"),
    [([0.1], "could be chance with 1 pair"), ([-0.01] * 13 + [0.5], "worse on most of 14 pairs")],
)
def test_neither_one_pair_nor_a_mean_that_a_few_make_is_a_guess(gains: list[float], why: str) -> None:
    plain = [0.4 + 0.001 * place for place in range(len(gains))]
    better = [score + gain for score, gain in zip(plain, gains, strict=True)]
    [one] = compare_results(paired_runs({"fedavg": plain, "scaffold": better})).recommendations
    assert (one.method, one.leader, one.confidence) == ("fedavg", "scaffold", "none")
    assert why in one.paragraph
    assert one.paragraph.endswith("Stay with fedavg.")


def test_the_baseline_is_recommended_where_it_leads() -> None:
    [one] = compare_results(paired_runs({"fedavg": SEVEN, "scaffold": above(SEVEN, -0.1)})).recommendations
    assert one.paragraph == (
        "Use fedavg: no other method has a better mean balanced accuracy; 1 other was tried."
    )


def test_recall_of_the_rarest_class_and_costs_are_told() -> None:
    plain = [with_recall(run, 0.78) for run in paired_runs({"fedavg": SEVEN})]
    better = [
        with_recall(run, 0.94, accuracy=row["accuracy"] - 0.12, bytes_down=1600)
        for run in paired_runs({"scaffold": above(SEVEN, 0.1)})
        for row in run.rows
    ]
    [one] = compare_results([*plain, *better]).recommendations
    assert "recall of the rarest class (b) 78 to 94 %" in one.paragraph
    assert "; costs 1.7 points of accuracy, the same time, 2 times the traffic. " in one.paragraph


def test_of_a_score_where_lower_is_better_the_lowest_is_recommended() -> None:
    runs = [
        made_run(method, seed, 0.5, calibration=[error + 0.001 * seed])
        for method, error in {"fedavg": 0.2, "scaffold": 0.1, "fedcm": 0.3}.items()
        for seed in range(7)
    ]
    [one] = compare_results(runs, score="calibration_error").recommendations
    assert (one.method, one.confidence) == ("scaffold", "high")
    assert one.difference == pytest.approx(-0.1)


def test_several_problems_open_with_all_of_them_and_say_where_they_differ() -> None:
    other = {"data": {"name": "digits", "imbalance": 50.0}}
    runs = [
        *paired_runs({"fedavg": SEVEN, "scaffold": above(SEVEN, 0.1), "fedcm": above(SEVEN, -0.1)}),
        *paired_runs({"fedavg": SEVEN, "scaffold": above(SEVEN, 0.1), "fedcm": above(SEVEN, 0.2)}, **other),
    ]
    found = compare_results(runs).recommendations
    assert [one.problem for one in found] == ["all", "imbalance=20", "imbalance=50"]
    first, second = opening(found)
    assert first.startswith("Use scaffold over all problems: ")
    assert second == "Problem by problem: scaffold on imbalance=20; fedcm on imbalance=50."


def test_a_guess_on_a_problem_is_called_one() -> None:
    other = {"data": {"name": "digits", "imbalance": 50.0}}
    runs = [
        *paired_runs({"fedavg": FEW, "scaffold": above(FEW, 0.1), "fedcm": above(FEW, -0.1)}),
        *paired_runs({"fedavg": FEW, "scaffold": above(FEW, -0.1), "fedcm": [0.60, 0.40, 0.62]}, **other),
    ]
    _, places = opening(compare_results(runs).recommendations)
    assert places == "Problem by problem: scaffold on imbalance=20; fedcm (a guess) on imbalance=50."


def test_nothing_is_recommended_without_a_method_to_compare() -> None:
    assert opening(compare_results(paired_runs({"fedavg": SEVEN})).recommendations) == []


def test_pooled_samples_are_compared_with_and_never_recommended() -> None:
    low, mid, high = ([base + seed / 100 for seed in range(8)] for base in (0.2, 0.4, 0.8))
    found = compare_results(paired_runs({"fedavg": low, "scaffold": mid, "centralised": high}))
    assert [one.method for one in found.recommendations] == ["scaffold"]
    assert {verdict.method: verdict.verdict for verdict in found.verdicts}["centralised"] == "better"


def test_the_words_do_not_deny_the_mean_of_a_method_that_pools_all_samples() -> None:
    """ "No other method has a better mean" stood above a table in which centralised had one, in bold."""
    low, mid, high = ([base + k / 1000 for k in range(8)] for base in (0.5, 0.6, 0.7))
    [found] = compare_results(
        paired_runs({"fedavg": mid, "scaffold": low, "centralised": high})
    ).recommendations
    assert found.paragraph.startswith("Use fedavg: no other method, centralised aside, has a better mean")
    unsure = [base + (-1) ** k / 10 for k, base in enumerate(mid)]
    runs = paired_runs({"fedavg": mid, "scaffold": [one + 0.01 for one in unsure], "centralised": high})
    [found] = compare_results(runs).recommendations
    assert found.paragraph.startswith("Cannot tell: scaffold has the best mean, centralised aside, balanced")
