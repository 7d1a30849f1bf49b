"""What a sweep knows beforehand: seeds that cannot pass a test; and settings at the edge of their grid."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from counterpoise.errors import DataError
from counterpoise.results.statistics import ALPHA, holm, signed_rank
from counterpoise.sweep.foreseen import edge_notes, foreseen
from counterpoise.sweep.sweep import Sweep, make_sweep


def _sweep(methods: int, seeds: int, **tables: Any) -> Sweep:
    names = ["fedavg", "fedavgm", "fedcm", "scaffold", "feddyn"][:methods]
    return make_sweep({"methods": names, "seeds": seeds, **tables})


@pytest.mark.parametrize("methods", [2, 3, 5])
@pytest.mark.parametrize("seeds", [1, 3, 5, 6, 7, 8, 9])
def test_it_is_said_exactly_where_the_clearest_difference_would_not_pass(methods: int, seeds: int) -> None:
    best = signed_rank([1.0 + k for k in range(seeds)]).p
    others = [1.0] * (methods - 2)
    passes = min(holm([best, *others])) < ALPHA
    assert bool(foreseen(_sweep(methods, seeds))) == (not passes)


def test_the_line_says_what_it_takes() -> None:
    assert foreseen(_sweep(3, 3)) == [
        "3 seeds cannot show that a method differs from the baseline on a problem: the smallest possible p is 0.5 after Holm's"
        " correction, and 0.05 is needed; it takes 7 seeds."
    ]
    assert foreseen(_sweep(1, 1)) == []
    many = foreseen(_sweep(2, 3, vary={"partition.alpha": [0.1, 1.0]}))
    assert many[0].endswith("it takes 6 seeds. Over all 2 problems together the test can pass.")


def test_a_tuned_number_at_the_edge_of_its_grid_is_noted(tmp_path: Path) -> None:
    sweep = _sweep(2, 6, tune={"grid": {"local.lr": [0.01, 0.1, 1.0]}}, base={"data": {"validation": 0.1}})
    searches = [
        {"method": "fedavg", "problem": "", "chosen": {"local.lr": 1.0}},
        {"method": "fedavgm", "problem": "", "chosen": {"local.lr": 0.1}},
    ]
    assert edge_notes(sweep, tmp_path) == []
    (tmp_path / "tuning.json").write_text("{")
    with pytest.raises(DataError, match="it is not JSON"):
        edge_notes(sweep, tmp_path)
    (tmp_path / "tuning.json").write_text(json.dumps({"searches": searches}))
    assert edge_notes(sweep, tmp_path) == [
        "fedavg: the tuned local.lr = 1 is the largest of its grid (0.01 to 1); a larger one may be better."
    ]


def test_the_edge_of_what_was_tried_is_noted_where_the_budget_left_the_rest_out(tmp_path: Path) -> None:
    sweep = _sweep(2, 6, tune={"grid": {"local.lr": [0.01, 0.1, 1.0]}}, base={"data": {"validation": 0.1}})
    trials = [{"setting": {"local.lr": lr}} for lr in (0.01, 0.1)]
    search = {"method": "fedavg", "problem": "hard", "chosen": {"local.lr": 0.1}, "trials": trials}
    (tmp_path / "tuning.json").write_text(json.dumps({"searches": [search]}))
    assert edge_notes(sweep, tmp_path) == [
        "fedavg on hard: the tuned local.lr = 0.1 is the largest that was tried; its grid goes on to 1, which a larger"
        " tune.budget would try."
    ]


def test_two_splits_or_folds_may_show_a_difference(tmp_path: Path) -> None:
    (tmp_path / "t.csv").write_text("a,y\n1,p\n2,q\n")
    base = {"data": {"name": "table", "path": str(tmp_path / "t.csv"), "label": "y"}}
    assert foreseen(_sweep(2, 3, base=base, repeats="folds")) == []
    assert "it takes 2 seeds" in foreseen(_sweep(2, 1, base=base, repeats="splits"))[0]
