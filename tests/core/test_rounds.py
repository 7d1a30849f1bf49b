"""Rounds are stored from 0 and read from 1, and one function knows it."""

from __future__ import annotations

import re
from pathlib import Path

import counterpoise
from counterpoise.core.rounds import counted

PACKAGE = Path(counterpoise.__file__).parent
BY_HAND = re.compile(r"""\[["']round["']\]\)?\s*\+\s*1""")  # row["round"] + 1
SHOWN_FROM_0 = re.compile(r"""f["'][^"'\n]*\bround \{(?:state\.)?round\}""")  # f"... round {round}"


def test_the_first_round_is_round_1() -> None:
    assert [counted(stored) for stored in range(3)] == [1, 2, 3]


def test_nothing_counts_by_hand_or_shows_a_stored_number() -> None:
    for path in PACKAGE.rglob("*.py"):
        for number, line in enumerate(path.read_text().splitlines(), 1):
            assert not BY_HAND.search(line), f"{path}:{number}"
            assert not SHOWN_FROM_0.search(line), f"{path}:{number}"


def test_the_check_notices_both() -> None:
    assert BY_HAND.search('x = int(row["round"]) + 1')
    assert SHOWN_FROM_0.search('raise RunError(f"lost in round {round} of {rounds}")')
