"""Learning rates over rounds, by hand."""

from __future__ import annotations

import math
from itertools import pairwise

import pytest
from hypothesis import given
from hypothesis import strategies as st

from counterpoise.core.local import SCHEDULES, Local
from counterpoise.errors import ConfigError


def _rates(name: str, rounds: int, **arguments: object) -> list[float]:
    at = SCHEDULES.build(name, arguments)
    return [at(0.8, t, rounds) for t in range(rounds)]


def test_constant() -> None:
    assert _rates("constant", 3) == [0.8, 0.8, 0.8]
    assert Local(lr=0.3).rate(5, 10) == 0.3


def test_factor() -> None:
    assert _rates("factor", 3, by=0.5) == [0.8, 0.4, 0.2]
    assert _rates("factor", 501)[500] == pytest.approx(0.8 * 0.998**500)


def test_cosine_runs_from_the_rate_to_the_floor() -> None:
    assert _rates("cosine", 3) == pytest.approx([0.8, 0.4, 0.0], abs=1e-16)
    assert _rates("cosine", 5, floor=0.2) == pytest.approx(
        [0.8, 0.2 + 0.3 * (1 + math.sqrt(0.5)), 0.5, 0.2 + 0.3 * (1 - math.sqrt(0.5)), 0.2]
    )


def test_cosine_of_one_round_is_the_rate() -> None:
    assert _rates("cosine", 1) == [0.8]


def test_steps_fall_at_their_boundaries() -> None:
    assert _rates("steps", 5, at=[2, 4], by=0.5) == [0.8, 0.8, 0.4, 0.4, 0.2]
    assert _rates("steps", 2, at=[]) == [0.8, 0.8]


def test_steps_may_be_shares_of_all_rounds() -> None:
    assert _rates("steps", 5, at=[0.5, 4], by=0.5) == [0.8, 0.8, 0.8, 0.4, 0.2]  # ceil(2.5) = 3
    assert SCHEDULES.build("steps", {"at": [0.9]})(0.8, 449, 500) == 0.8
    assert SCHEDULES.build("steps", {"at": [0.9]})(0.8, 450, 500) == pytest.approx(0.08)
    # 0.55 * 100 is above 55 in floats
    assert SCHEDULES.build("steps", {"at": [0.55]})(0.8, 55, 100) == pytest.approx(0.08)


def test_steps_do_not_depend_on_the_order_of_boundaries() -> None:
    assert _rates("steps", 5, at=[4, 2], by=0.5) == _rates("steps", 5, at=[2, 4], by=0.5)


def test_bad_arguments_are_refused() -> None:
    for name, arguments in (
        ("factor", {"by": 0.0}),
        ("factor", {"by": 1.5}),
        ("steps", {"at": [0]}),
        ("steps", {"at": [1.5]}),
        ("steps", {"at": [1.0]}),
        ("steps", {}),
    ):
        with pytest.raises(ConfigError, match=name):
            SCHEDULES.build(name, arguments)


@given(st.integers(1, 500), st.sampled_from(["constant", "factor", "cosine"]))
def test_rates_never_rise_and_are_never_negative(rounds: int, name: str) -> None:
    rates = _rates(name, rounds)
    assert rates[0] == 0.8
    assert all(later <= earlier for earlier, later in pairwise(rates))
    assert min(rates) >= 0


def test_a_rate_beyond_all_numbers_is_told_with_its_round() -> None:
    local = Local(lr=1.0, schedule={"steps": {"at": [1, *range(2, 12)], "by": 1e38}})
    assert local.rate(1, 20) == 1e38
    with pytest.raises(ConfigError, match=r"local\.schedule.* overflows in round 12 of 20"):
        local.rate(11, 20)
