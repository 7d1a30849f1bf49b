"""What a stopped race remembers."""

from __future__ import annotations

from pathlib import Path

import pytest

from counterpoise.advice.memory import Memory
from counterpoise.advice.plan import Rung
from counterpoise.errors import ConfigError, DataError

DATA = "0" * 64  # SHA-256


def remembered(path: Path) -> None:
    memory = Memory(path, "macro_f1", 5.0, DATA)
    memory.keep(spent=12.5, rates=2, candidates=7, rungs=[Rung(14, 10, 1)], finals=Rung(4, 20, 10))


def test_the_same_question_finds_its_plan(tmp_path: Path) -> None:
    remembered(tmp_path / "advice.json")
    again = Memory(tmp_path / "advice.json", "macro_f1", 5.0, DATA)
    assert (again.planned, again.spent, again.rates, again.candidates) == (True, 12.5, 2, 7)
    assert (again.rungs, again.finals) == ([Rung(14, 10, 1)], Rung(4, 20, 10))


def test_more_minutes_keep_the_rungs_and_plan_the_finals_anew(tmp_path: Path) -> None:
    remembered(tmp_path / "advice.json")
    longer = Memory(tmp_path / "advice.json", "macro_f1", 10.0, DATA)
    assert (longer.spent, longer.rungs, longer.finals) == (12.5, [Rung(14, 10, 1)], None)


def test_more_minutes_choose_candidates_anew_where_no_rung_has_run(tmp_path: Path) -> None:
    Memory(tmp_path / "advice.json", "macro_f1", 0.1, DATA).keep(spent=6.0, rates=1, candidates=4)
    assert Memory(tmp_path / "advice.json", "macro_f1", 0.1, DATA).planned
    longer = Memory(tmp_path / "advice.json", "macro_f1", 10.0, DATA)
    assert (longer.planned, longer.spent) == (False, 6.0)


def test_fewer_minutes_keep_the_whole_plan_and_so_does_the_first_question_after_them(tmp_path: Path) -> None:
    remembered(tmp_path / "advice.json")
    for minutes in (1.0, 5.0):
        again = Memory(tmp_path / "advice.json", "macro_f1", minutes, DATA)
        again.keep(spent=20.0)
        assert again.finals == Rung(4, 20, 10)


def test_another_goal_starts_with_a_new_plan(tmp_path: Path) -> None:
    remembered(tmp_path / "advice.json")
    other = Memory(tmp_path / "advice.json", "auprc", 5.0, DATA)
    assert (other.planned, other.spent, other.rungs, other.finals) == (False, 0.0, [], None)


def test_what_ran_on_other_data_is_no_advice_on_these(tmp_path: Path) -> None:
    remembered(tmp_path / "advice.json")
    with pytest.raises(ConfigError, match="holds advice on other data; name another folder"):
        Memory(tmp_path / "advice.json", "macro_f1", 5.0, "1" * 64)
    assert Memory(tmp_path / "advice.json", "macro_f1", 5.0, DATA).planned


@pytest.mark.parametrize("text", ["", "{", "[]", "\udcff"])
def test_a_damaged_file_is_told_in_one_line(text: str, tmp_path: Path) -> None:
    path = tmp_path / "advice.json"
    path.write_bytes(text.encode(errors="surrogateescape"))
    with pytest.raises(DataError, match="is damaged") as refused:
        Memory(path, "macro_f1", 5.0, DATA)
    assert "\n" not in str(refused.value)
