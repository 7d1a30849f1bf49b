"""Rounds are stored from 0 and read from 1, and one function knows it."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

import counterpoise
from counterpoise.core.rounds import counted

PACKAGE = Path(counterpoise.__file__).parent
BY_HAND = re.compile(r"""[\[(]["']round["'][^])\n]*[])]+\s*\+\s*1""")  # row["round"] + 1
SHOWN_FROM_0 = re.compile(
    r"\bround \{(?:state\.)?\w+\}"
)  # f"... round {round}"; a plain name is a stored number


def test_the_first_round_is_round_1() -> None:
    assert [counted(stored) for stored in range(3)] == [1, 2, 3]


def test_nothing_counts_by_hand_or_shows_a_stored_number() -> None:
    for path in PACKAGE.rglob("*.py"):
        for number, line in enumerate(path.read_text().splitlines(), 1):
            assert not BY_HAND.search(line), f"{path}:{number}"
            assert not SHOWN_FROM_0.search(line), f"{path}:{number}"


@pytest.mark.parametrize(
    "line", ['x = int(row["round"]) + 1', 'row.pop("round") + 1', "row.get('round', 0) + 1"]
)
def test_the_check_notices_counting_by_hand(line: str) -> None:
    assert BY_HAND.search(line)


@pytest.mark.parametrize(
    "line",
    [
        'f"lost in round {round} of {rounds}"',
        'f"run {row["run"]}, round {number}: "',
        'f"round {state.round}"',
    ],
)
def test_the_check_notices_a_stored_number(line: str) -> None:
    assert SHOWN_FROM_0.search(line)


@pytest.mark.parametrize("line", ['counted(row["round"])', 'f"round {counted(number)}"', 'row["rounds"] + 1'])
def test_the_check_lets_what_is_right_pass(line: str) -> None:
    assert not BY_HAND.search(line)
    assert not SHOWN_FROM_0.search(line)
