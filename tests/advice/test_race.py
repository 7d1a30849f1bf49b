"""Successive halving: who goes on, how long rungs are, and that the clock is kept."""

from __future__ import annotations

import pytest

from counterpoise.advice.plan import (
    FINALISTS,
    MOST_SEEDS,
    OVERHEAD,
    SAFETY,
    SEEDS,
    Clock,
    Rung,
    Time,
    is_more,
    plan_finals,
    plan_rung,
)
from counterpoise.advice.race import Standing, better_half, finalists_of
from counterpoise.advice.trials import Trial


def trial(label: str, rate: float = 0.1) -> Trial:
    return Trial(label, label, {"local.lr": rate}, "")


def standing(label: str, score: float | None, rate: float = 0.1, done: int = 1) -> Standing:
    return Standing(trial(label, rate), score, done if score is not None else 0, 1)


def test_the_worse_half_is_dropped() -> None:
    scores = {"fedavg": 0.7, "a": 0.9, "b": 0.2, "c": 0.8, "d": 0.6, "e": 0.5}
    kept = better_half([standing(label, score) for label, score in scores.items()])
    assert [one.label for one in kept] == ["a", "c", "fedavg"]


def test_the_baseline_goes_on_at_its_best_rate_however_bad() -> None:
    standings = [
        standing("fedavg", 0.1, 0.1), standing("fedavg", 0.3, 0.3), standing("a", 0.9), standing("b", 0.8),
    ]  # fmt: skip
    kept = better_half(standings)
    assert [(one.label, one.setting["local.lr"]) for one in kept] == [("a", 0.1), ("b", 0.1), ("fedavg", 0.3)]


def test_a_trial_that_failed_or_had_no_time_is_last() -> None:
    kept = better_half(
        [standing("fedavg", 0.1), standing("a", None), standing("b", 0.05), standing("c", None)]
    )
    assert [one.label for one in kept] == ["fedavg", "b"]


def test_finalists_are_methods_at_their_best_rate_the_baseline_first() -> None:
    ranked = [trial("a", 0.3), trial("a", 0.1), trial("b"), trial("fedavg", 0.3), trial("fedavg", 0.1)]
    found = [(one.label, one.setting["local.lr"]) for one in finalists_of(ranked)]
    assert found == [("fedavg", 0.3), ("a", 0.3), ("b", 0.1)]


def test_rungs_share_the_time_and_none_costs_more_than_its_part() -> None:
    for seconds, rungs in ((900.0, 3), (600.0, 2), (300.0, 1), (150.0, 1)):
        rung = plan_rung(32, 100, Time(seconds, processes=2, pace=0.25))  # at most 32, 16, 8, then the finals
        assert rung is not None
        assert (rung.trials, rung.seeds) == (32, 1)
        assert (rung.rounds >= 50) == (seconds > 150)  # fewer rungs before they are short
        cost = rung.trials * (rung.rounds * 0.25 + OVERHEAD)
        assert cost <= SAFETY * seconds * 2 / rungs < cost + 32 * 0.25


def test_with_time_to_spare_all_run_their_rounds_over_several_seeds() -> None:
    rung = plan_rung(32, 100, Time(seconds=1e6, processes=1, pace=0.5))
    assert rung is not None
    assert (rung.rounds, rung.seeds) == (100, SEEDS)


def test_a_rung_that_is_too_short_to_tell_is_not_run() -> None:
    assert plan_rung(32, 100, Time(seconds=60.0, processes=1, pace=0.5)) is None
    assert plan_rung(FINALISTS, 100, Time(seconds=1e6, processes=1, pace=0.5)) is None


def test_no_rung_is_shorter_than_the_one_before() -> None:
    spend = Time(seconds=600.0, processes=2, pace=0.25)
    rung = plan_rung(32, 100, spend)
    assert rung is not None
    assert plan_rung(32, 100, spend, least=rung.rounds) == rung
    longer = plan_rung(32, 100, spend, least=rung.rounds + 1)  # a single one
    assert longer is not None
    assert longer.rounds > rung.rounds
    assert plan_rung(32, 100, Time(400.0, 2, 0.25), least=80) is None


@pytest.mark.parametrize(
    ("seconds", "trials", "rounds"),
    [(1e4, 4, 100), (1e3, 3, 100), (800.0, 2, 100), (500.0, 2, 79), (1.0, 2, 20)],
)
def test_the_finals_have_fewer_methods_before_they_have_fewer_rounds(
    seconds: float, trials: int, rounds: int
) -> None:
    finals = plan_finals(4, 100, Time(seconds, processes=1, pace=0.5))
    assert (finals.trials, finals.rounds, finals.seeds) == (trials, rounds, MOST_SEEDS)


def test_finals_that_have_ended_need_no_time_again() -> None:
    spend = Time(seconds=400.0, processes=1, pace=0.5)  # six runs of 100 rounds
    assert plan_finals(4, 100, spend).trials == 2
    assert plan_finals(4, 100, spend, done=Rung(3, 100, 10)) == Rung(4, 100, MOST_SEEDS)
    assert plan_finals(4, 100, spend, done=Rung(3, 50, 10)).trials == 2  # shorter ones do not count


def test_finals_are_run_again_only_for_more_methods_or_rounds() -> None:
    done = Rung(3, 50, 10)
    assert is_more(Rung(3, 60, 10), done)
    assert is_more(Rung(4, 50, 10), done)
    for no_more in (done, Rung(2, 100, 10), Rung(4, 40, 10), Rung(2, 20, 10)):
        assert not is_more(no_more, done)


def test_a_clock_goes_on_from_what_was_spent() -> None:
    clock = Clock(100.0, spent=60.0)
    assert 30.0 < clock.left <= 40.0
    assert Clock(10.0, spent=60.0).left == 0.0
