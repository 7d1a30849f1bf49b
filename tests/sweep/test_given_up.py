"""A run that diverges has no place in a table, however often the command is given, and takes no other run along."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from made_runs import made_run, paired_runs
from runs import call
from sweeps import ends_of, run_here, tiny_sweep, write_tiny_sweep

from counterpoise.errors import RunError
from counterpoise.results.comparison import compare_results
from counterpoise.run.giving_up import why_given_up
from counterpoise.run.runner import resume
from counterpoise.run.store.folder import read_rows

WILD = {"name": "wild", "method": "fedavg", "local": {"lr": 1e30}}
REJECTED = [{"client": 0, "reason": "not finite"}]
STACKED = {"engine": {"name": "stacked", "device": "cpu"}}


def _rows(pattern: str) -> list[dict[str, Any]]:
    """d: diverged, n: nobody replied, u: used."""
    return [{"skipped": letter != "u", "rejected": REJECTED if letter == "d" else []} for letter in pattern]


@pytest.mark.parametrize(
    ("pattern", "words"),
    [
        ("uuuuu", None),
        ("udddu", "3 rounds in a row were skipped, and no reply could be used (not finite)"),
        ("dduddu", None),
        ("unnnnnu", None),  # an outage passes
        ("nn", "all 2 rounds were skipped"),
        ("dd", "all 2 rounds were skipped"),
        ("", None),
        ("uun", "its last round was skipped"),
        ("uudd", "its last 2 rounds were skipped, and no reply could be used (not finite)"),
        ("unnnnn", "its last 5 rounds were skipped"),
        ("nnud", "its last round was skipped"),
    ],
)
def test_what_a_run_is_given_up_for(pattern: str, words: str | None) -> None:
    found = why_given_up(_rows(pattern), most=3, rounds=max(len(pattern), 1))
    assert found is None if words is None else words in str(found)


def test_a_run_that_was_stopped_early_may_still_go_well() -> None:
    assert why_given_up(_rows("dd"), most=3, rounds=4) is None


@pytest.mark.parametrize("rounds", [3, 8], ids=["before patience ends", "after it"])
def test_a_diverging_run_stays_out_of_the_table(tmp_path: Path, rounds: int) -> None:
    path = write_tiny_sweep(tmp_path, methods=["fedavg", "fedprox", WILD], seeds=1, base={"rounds": rounds})
    for _ in range(3):
        code, out, err = call("compare", path, "--processes", 1, "--out", tmp_path / "out")
        assert code == 4
        assert "wild-seed0: " in err
        assert "were skipped" in err
        assert "tries again" not in err  # it would end so again
        assert "Left out: " in out
        table = (tmp_path / "out" / "table.md").read_text()
        assert "| fedprox |" in table
        assert "| wild |" not in table
    assert len(read_rows(tmp_path / "out" / "runs" / "wild-seed0" / "metrics.jsonl")) == min(rounds, 5)


def test_a_diverging_run_that_is_resumed_by_hand_stays_out_too(tmp_path: Path) -> None:
    sweep = tiny_sweep(methods=["fedavg", WILD], seeds=1, base={"rounds": 7})
    assert len(run_here(sweep, tmp_path).given_up) == 1
    for words in ("6 rounds in a row", "all 7 rounds", "all 7 rounds"):
        with pytest.raises(RunError, match=f"{words} were skipped"):
            resume(tmp_path / "runs" / "wild-seed0")
    assert [row.method for row in run_here(sweep, tmp_path).comparison.rows] == ["fedavg"]


def test_more_patience_lets_it_go_on(tmp_path: Path) -> None:
    sweep = tiny_sweep(methods=["fedavg", WILD], seeds=1, base={"rounds": 7})
    run_here(sweep, tmp_path)
    patient = tiny_sweep(
        methods=["fedavg", WILD], seeds=1, base={"rounds": 7, "engine": {"max_skipped": 100}}
    )
    (why,) = run_here(patient, tmp_path).given_up.values()
    assert "max_skipped = 100" in (tmp_path / "runs" / "wild-seed0" / "config.toml").read_text()
    assert why.startswith("all 7 rounds were skipped, and no reply could be used")
    assert len(read_rows(tmp_path / "runs" / "wild-seed0" / "metrics.jsonl")) == 7


def test_a_run_that_diverges_stops_none_that_it_is_trained_together_with(tmp_path: Path) -> None:
    methods = [{"name": "tame", "method": "fedavg"}, WILD]
    sweep = tiny_sweep(methods=methods, seeds=2, base=STACKED | {"rounds": 7})
    for _ in range(2):
        finished = run_here(sweep, tmp_path / "together")
        assert sorted(path.name for path in finished.given_up) == ["wild-seed0", "wild-seed1"]
        assert finished.failures == {}
    assert {*ends_of(tmp_path / "together")} == {"tame-seed0", "tame-seed1"}
    alone = run_here(tiny_sweep(methods=methods[:1], seeds=2, base={"rounds": 7}), tmp_path / "alone")
    ours, theirs = (one.comparison.rows[0].cells["accuracy"].values for one in (finished, alone))
    assert ours == theirs


def test_skipped_rounds_of_a_run_that_counts_are_told() -> None:
    runs = paired_runs({"fedavg": [0.5, 0.6], "fedprox": [0.5, 0.6]})
    several = made_run("fedcm", 0, [0.1, 0.2, 0.3])
    several.rows[1] |= {"skipped": True, "rejected": REJECTED}
    notes = compare_results([*runs, several]).notes
    assert any("seed 0: 1 of 3 rounds were skipped, since no reply could be used." in note for note in notes)


@pytest.mark.parametrize("baseline", ["wild", None])
def test_without_its_baseline_nothing_is_tested_against_another(tmp_path: Path, baseline: str | None) -> None:
    methods = [WILD, "fedprox", "fedcm"]
    options = {} if baseline is None else {"table": {"baseline": baseline}}
    sweep = tiny_sweep(methods=methods, seeds=2, base={"rounds": 6}, **options)
    comparison = run_here(sweep, tmp_path).comparison
    assert comparison.baseline == "wild"
    assert comparison.verdicts == ()
    assert any("The baseline wild has no finished run" in note for note in comparison.notes)
    assert "wild" in (tmp_path / "report.html").read_text()
