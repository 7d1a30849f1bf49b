"""Better, worse, no evidence: on each problem and over all of them."""

from __future__ import annotations

import pytest
from made_runs import made_run, paired_runs

from counterpoise.results.comparison import Comparison, Verdict, compare_results

SIX = [0.5, 0.51, 0.52, 0.53, 0.54, 0.55]


def raised(scores: list[float], by: float) -> list[float]:
    """Higher by this much and a little more at each seed, so that no two differences tie."""
    return [score + by * (1 + place / 10) for place, score in enumerate(scores)]


def only(comparison: Comparison) -> Verdict:
    (verdict,) = comparison.verdicts
    return verdict


def test_six_pairs_of_one_sign_are_evidence() -> None:
    verdict = only(compare_results(paired_runs({"fedavg": SIX, "scaffold": raised(SIX, 0.1)})))
    assert (verdict.verdict, verdict.pairs) == ("better", 6)
    assert verdict.p == verdict.adjusted == pytest.approx(2 / 64)
    assert verdict.difference == pytest.approx(0.125)
    assert verdict.effect["rank_biserial"] == 1
    assert verdict.sentence == (
        "scaffold is better than fedavg: balanced accuracy +12.5 points (95 % interval +10.0 to +15.0),"
        " 6 pairs (seeds), p = 0.031."
    )


def test_lower_is_worse() -> None:
    verdict = only(compare_results(paired_runs({"fedavg": SIX, "scaffold": raised(SIX, -0.1)})))
    assert verdict.verdict == "worse"
    assert verdict.effect["rank_biserial"] == -1


def test_a_lower_calibration_error_is_better() -> None:
    runs = [
        made_run(method, seed, calibration=[error + seed**2 / 1000 * (method == "scaffold")])
        for method, error in (("fedavg", 0.2), ("scaffold", 0.1))
        for seed in range(6)
    ]
    verdict = only(compare_results(runs, score="calibration_error"))
    assert verdict.verdict == "better"
    assert verdict.difference < 0


def test_five_pairs_cannot_be_evidence_and_the_sentence_says_so() -> None:
    verdict = only(compare_results(paired_runs({"fedavg": SIX[:5], "scaffold": raised(SIX[:5], 0.3)})))
    assert verdict.verdict == "no evidence"
    assert verdict.p == pytest.approx(1 / 16)
    assert verdict.sentence.startswith(
        "No evidence that scaffold differs from fedavg: balanced accuracy +36.0 points"
    )
    assert verdict.sentence.endswith(
        "5 pairs (seeds), p = 0.062. Too few pairs to find anything, or to bound the difference by an interval: the smallest p that 5 can give is 0.062; it takes 6."
    )
    assert verdict.interval is None


def test_holm_counts_the_methods_of_the_problem() -> None:
    scores = {"fedavg": SIX, **{name: raised(SIX, 0.1) for name in ("scaffold", "fedcm", "feddyn")}}
    verdicts = compare_results(paired_runs(scores)).verdicts
    assert [verdict.adjusted for verdict in verdicts] == pytest.approx([3 * 2 / 64] * 3)
    assert {verdict.verdict for verdict in verdicts} == {"no evidence"}
    assert "is 0.031, 0.094 after Holm; it takes 7." in verdicts[0].sentence


def test_pairs_that_are_equal_give_no_evidence_and_are_named() -> None:
    verdict = only(compare_results(paired_runs({"fedavg": SIX, "scaffold": SIX})))
    assert (verdict.verdict, verdict.p, verdict.effect["cohen_dz"]) == ("no evidence", 1.0, None)
    assert verdict.sentence.endswith("The two are equal on every pair.")
    half = only(compare_results(paired_runs({"fedavg": SIX, "scaffold": [*SIX[:3], *raised(SIX[3:], 0.1)]})))
    assert "the smallest p that the 3 that differ can give is 0.25" in half.sentence


def test_one_pair_has_no_interval() -> None:
    verdict = only(compare_results(paired_runs({"fedavg": [0.5], "scaffold": [0.7]})))
    assert (verdict.interval, verdict.p) == (None, 1.0)
    assert "+20.0 points, 1 pair (seeds), p = 1." in verdict.sentence


def test_many_pairs_without_evidence_need_no_excuse() -> None:
    mixed = [score + (-1) ** place * 0.01 * (place + 1) for place, score in enumerate(SIX)]
    assert "Too few" not in only(compare_results(paired_runs({"fedavg": SIX, "scaffold": mixed}))).sentence


def test_over_few_problems_each_seed_of_each_counts() -> None:
    runs = [
        run
        for imbalance in (10.0, 50.0)
        for run in paired_runs(
            {"fedavg": SIX[:3], "scaffold": raised(SIX[:3], imbalance / 1000)}, data={"imbalance": imbalance}
        )
    ]
    found = compare_results(runs)
    assert [(v.problem, v.pairs, v.verdict) for v in found.verdicts] == [
        ("imbalance=10", 3, "no evidence"),
        ("imbalance=50", 3, "no evidence"),
        ("all", 6, "better"),
    ]
    assert "better than fedavg over all problems:" in found.verdicts[-1].sentence
    assert "6 pairs (problem and seed)" in found.verdicts[-1].sentence
    assert "not for others" in found.notes[0]


def test_from_six_problems_on_each_problem_counts_once() -> None:
    runs = [
        run
        for imbalance in range(1, 7)
        for run in paired_runs(
            {"fedavg": SIX[:2], "scaffold": raised(SIX[:2], imbalance / 100)}, data={"imbalance": imbalance}
        )
    ]
    verdict = compare_results(runs).verdicts[-1]
    assert (verdict.problem, verdict.pairs) == ("all", 6)
    assert verdict.p == pytest.approx(2 / 64)
    assert verdict.difference == pytest.approx(0.035 * 1.05)


def test_a_method_that_shares_no_pair_has_no_verdict() -> None:
    runs = [made_run("fedavg", 0, 0.5), made_run("scaffold", 1, 0.6), made_run("fedcm", 0, 0.7)]
    assert [verdict.method for verdict in compare_results(runs).verdicts] == ["fedcm"]


def test_ranks_follow_the_direction_of_the_score() -> None:
    errors = {"fedavg": 0.3, "scaffold": 0.1, "fedcm": 0.2}
    runs = [made_run(m, seed, calibration=[e + seed / 100]) for m, e in errors.items() for seed in range(4)]
    ranking = compare_results(runs, score="calibration_error").ranking
    assert ranking is not None
    assert ranking.methods == ("scaffold", "fedcm", "fedavg")
    assert (ranking.blocks, ranking.unit) == (4, "seeds")


def test_only_blocks_that_every_method_has_are_ranked() -> None:
    runs = paired_runs({"fedavg": [0.1, 0.2, 0.3], "scaffold": [0.2, 0.3, 0.4], "fedcm": [0.5, 0.6]})
    ranking = compare_results(runs).ranking
    assert ranking is not None
    assert ranking.blocks == 2
