"""From paired scores to a recommendation, with numbers worked out by hand."""

from __future__ import annotations

import math
from collections.abc import Sequence

import pytest
from made_runs import made_run

from counterpoise.advice.figures import Figures
from counterpoise.advice.goal import Goal, read_goal
from counterpoise.advice.recommend import Held, conclude, gain_of, gains_of
from counterpoise.errors import ConfigError
from counterpoise.results.results import RunResult

GOAL = Goal("balanced_accuracy", "balanced_accuracy", "balanced accuracy")
DATA = Figures(1000, 2, 10, 10, 9.0, "a", "b", 100, 0.1, 0.0, 80, 120)
HELD = Held(samples=200, rarest=20, share=0.2, own=False, anew=True)
BASE = [0.50, 0.54, 0.52, 0.51, 0.55, 0.50, 0.53, 0.52]


def runs(label: str, scores: Sequence[float], recall: float = 0.5) -> dict[int, RunResult]:
    record = {"data": {"classes": ["a", "b"], "class_counts": [90, 10]}}
    made = [made_run(label, seed, score) for seed, score in enumerate(scores)]
    return {
        seed: run._replace(
            record=record, rows=[row | {"per_class_recall": [0.9, recall]} for row in run.rows]
        )
        for seed, run in enumerate(made)
    }


def decide(held: Held = HELD, notes: Sequence[str] = (), **scores: Sequence[float]):  # type: ignore[no-untyped-def]
    finals = {label: runs(label, found, 0.9) for label, found in scores.items()} | {
        "fedavg": runs("fedavg", BASE)
    }
    return conclude(finals, "fedavg", GOAL, DATA, held, notes)


def plus(gains: Sequence[float]) -> list[float]:
    return [score + gain for score, gain in zip(BASE, gains, strict=True)]


def test_the_interval_is_the_corrected_one() -> None:
    differences = [0.02, 0.04, 0.06]
    gain = gain_of("a", differences, HELD, compared=1)
    error = 0.02 * math.sqrt(1 / 3 + 0.2 / 0.8)  # the deviation of the three is 0.02
    assert gain.mean == pytest.approx(0.04)
    assert gain.error == pytest.approx(error)
    assert gain.interval == pytest.approx((0.04 - 4.3027 * error, 0.04 + 4.3027 * error), rel=1e-4)
    alone = gain_of("a", differences, HELD._replace(anew=False), compared=1)
    assert alone.error == pytest.approx(0.02 / math.sqrt(3))


def test_more_finalists_make_the_interval_wider() -> None:
    one, three = (gain_of("a", [0.02, 0.04, 0.06], HELD, compared) for compared in (1, 3))
    assert one.interval is not None
    assert three.interval is not None
    assert three.interval[0] < one.interval[0]
    assert three.interval[1] - 0.04 == pytest.approx(0.04 - three.interval[0])


def test_one_pair_has_no_interval_and_is_not_recommended() -> None:
    assert gain_of("a", [0.1], HELD, 1).interval is None
    finals = {"fedavg": runs("fedavg", [0.5]), "a": runs("a", [0.9])}
    found = conclude(finals, "fedavg", GOAL, DATA, HELD, ())
    assert (found.method, found.confidence) == ("fedavg", "none")
    assert found.paragraph.startswith("Cannot tell: a has the best mean, balanced accuracy +40.0 points")
    assert found.paragraph.endswith(" Stay with fedavg.")


def test_a_clear_gain_is_recommended_with_high_confidence_and_its_costs() -> None:
    found = decide(a=plus([0.10, 0.11, 0.10, 0.12, 0.11, 0.10, 0.11, 0.12]), b=plus([0.01] * 7 + [0.02]))
    assert (found.method, found.confidence) == ("a", "high")
    assert found.difference == pytest.approx(0.10875)
    assert "recall of the rarest class (b) 50 to 90 %" in found.paragraph
    assert "the same time, the same traffic" in found.paragraph


def test_doubts_lower_the_confidence_and_are_told() -> None:
    gains = plus([0.10, 0.11, 0.10, 0.12, 0.11, 0.10, 0.11, 0.12])
    found = decide(HELD._replace(rarest=4), a=gains)
    assert found.confidence == "fair"
    assert "only 4 of 200 validation samples are of b, the rarest class" in found.paragraph
    fixed = decide(HELD._replace(anew=False), ["time allowed for 5 of 9 rounds"], a=gains)
    assert fixed.confidence == "fair"
    assert "same validation samples" in fixed.paragraph
    assert "time allowed for 5 of 9 rounds" in fixed.paragraph


def test_the_doubt_on_fixed_samples_says_what_to_do_where_a_key_fixes_them() -> None:
    fixed = HELD._replace(anew=False)
    gains = plus([0.10, 0.11, 0.10, 0.12, 0.11, 0.10, 0.11, 0.12])
    assert "draws them anew" not in decide(fixed, a=gains).paragraph  # of a pack
    found = decide(fixed._replace(fixed_by=("data.validation",)), a=gains)
    assert "(data.validation=0 with another folder draws them anew for each seed)" in found.paragraph


def test_a_gain_within_the_noise_cannot_be_told_and_the_better_mean_is_the_better_guess() -> None:
    found = decide(a=plus([0.2, -0.2, 0.2, -0.18, 0.2, -0.2, 0.2, -0.2]))
    assert (found.method, found.leader, found.confidence) == ("a", "a", "none")
    assert found.paragraph.startswith("Cannot tell: a has the best mean")
    assert "It is the better guess: it " in found.paragraph


def test_a_finalist_with_evidence_is_advised_before_one_with_a_better_mean() -> None:
    sure = plus([0.05, 0.06, 0.05, 0.06, 0.05, 0.06, 0.05, 0.06])
    wild = plus([0.4, -0.2, 0.4, -0.2, 0.4, -0.2, 0.4, -0.2])
    found = decide(a=wild, b=sure)
    assert (found.method, found.leader, found.confidence) == ("b", "b", "high")
    assert "; a is 4.5 points better in the mean, but with less evidence" in found.paragraph


def test_a_gain_beyond_its_standard_error_is_advised_with_low_confidence() -> None:
    likely = plus([0.10, -0.02, 0.08, 0.09, -0.03, 0.10, 0.08, 0.07])  # 1.7 standard errors
    assert decide(a=likely).confidence == "low"
    assert decide(HELD._replace(rarest=2), a=likely).confidence == "low"  # the error holds that noise already
    unlikely = plus([0.10, -0.09, 0.08, 0.09, -0.10, 0.10, -0.12, 0.07])  # 0.5 standard errors
    assert decide(a=unlikely).confidence == "none"


def test_the_baseline_stays_where_nothing_is_better() -> None:
    found = decide(a=plus([-0.1] * 8))
    assert (found.method, found.leader) == ("fedavg", "")
    assert found.paragraph.startswith("Use fedavg: no other method has a better mean balanced accuracy; ")
    assert found.paragraph.endswith("the finals tried 1 other over 8 seeds.")


def test_what_speaks_against_staying_with_the_baseline_is_told() -> None:
    """Five validation samples of the rarest class chose between the methods, and nothing said so."""
    found = decide(HELD._replace(rarest=5, anew=False), a=plus([-0.1] * 8))
    assert ", but only 5 of 200 validation samples are of b, the rarest class; all seeds" in found.paragraph


def test_only_seeds_that_all_finalists_finished_are_compared() -> None:
    finals = {"fedavg": runs("fedavg", BASE), "a": runs("a", plus([0.1] * 8)[:4]), "b": runs("b", BASE[:5])}
    first, second = gains_of(finals, "fedavg", GOAL, HELD)
    assert (first.label, first.pairs, second.pairs) == ("a", 4, 4)


def test_a_finalist_that_failed_with_most_seeds_is_left_out() -> None:
    finals = {"fedavg": runs("fedavg", BASE), "a": runs("a", [0.9] * 3), "b": runs("b", BASE), "c": {}}
    [gain] = gains_of(finals, "fedavg", GOAL, HELD)
    assert (gain.label, gain.pairs) == ("b", 8)


@pytest.mark.parametrize(
    ("name", "key", "words"),
    [
        ("balanced_accuracy", "balanced_accuracy", "balanced accuracy"),
        ("auprc", "average_precision", "average precision"),
        ("recall:b", "per_class_recall", "recall of b"),
    ],
)
def test_goals_are_scores_of_a_row(name: str, key: str, words: str) -> None:
    goal = read_goal(name, ["a", "b"])
    row = {"balanced_accuracy": 0.25, "average_precision": 0.25, "per_class_recall": [0.75, 0.25]}
    assert (goal.key, goal.words, goal.read(row)) == (key, words, 0.25)
    assert goal.read({}) is None


@pytest.mark.parametrize(
    ("name", "words"),
    [("speed", "recall:CLASS"), ("recall:c", "no such class; one of a, b"), (3, "must be one of")],
)
def test_a_goal_that_there_is_not_is_refused_in_one_line(name: str, words: str) -> None:
    with pytest.raises(ConfigError, match=words) as refused:
        read_goal(name, ["a", "b"])
    assert "\n" not in str(refused.value)
