"""Words that many sentences share."""

from __future__ import annotations

from counterpoise.errors import noun, plural
from counterpoise.results.verdicts import ALL, where_judged
from counterpoise.results.words import on_problem


def test_one_thing_is_no_plural() -> None:
    assert [plural(count, "seed") for count in (0, 1, 2)] == ["0 seeds", "1 seed", "2 seeds"]
    assert [noun(count, "seed") for count in (0, 1, 2)] == ["seeds", "seed", "seeds"]


def test_a_single_problem_needs_no_name() -> None:
    assert (on_problem(""), on_problem("alpha=0.1")) == ("", " on alpha=0.1")
    assert (where_judged(""), where_judged("alpha=0.1")) == ("", " on alpha=0.1")
    assert where_judged(ALL) == " over all problems"
