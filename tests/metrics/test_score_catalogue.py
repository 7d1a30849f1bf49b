"""What a score is stands in one place: one entry, and every table, file and check knows it."""

from __future__ import annotations

import csv
import io
from pathlib import Path

import pytest
import torch
from made_runs import made_run

from counterpoise.core.part import Batch, Outputs
from counterpoise.errors import DataError
from counterpoise.metrics import Shots, catalogue
from counterpoise.metrics.catalogue import ScoreEntry, comparable, find, headline, register, shown_in
from counterpoise.metrics.scoring import Scoring, count_all
from counterpoise.report.render import render_csv, render_markdown
from counterpoise.report.table import header
from counterpoise.results.comparison import compare_results
from counterpoise.results.results import RunResult
from counterpoise.run.store.rows import check_rounds
from counterpoise.run.summary import summarise_rows
from counterpoise.sweep.sweep import make_sweep

ROW = {
    "lr": 0.1, "asked": 1, "tasks": 1, "replied": 1, "rejected": [], "loss": 1.0, "bytes_down": 1,
    "bytes_up": 1, "skipped": False, "accuracy": 0.5, "balanced_accuracy": 0.5,
}  # fmt: skip


@pytest.fixture
def errors(monkeypatch: pytest.MonkeyPatch) -> str:
    """A score of one's own: the share of wrong answers, and lower is better."""
    monkeypatch.setattr(catalogue, "SCORES", dict(catalogue.SCORES))

    def share(sums: object) -> float:
        counts = sums["confusion"].double()  # type: ignore[index]
        return float(1 - counts.trace() / counts.sum())

    return register(
        ScoreEntry("errors", short="wrong", lower=True, places=shown_places(), formula=share)
    ).name


def shown_places() -> tuple[catalogue.Place, ...]:
    return "summary", "table", "runs"


def run(method: str, errors: float) -> RunResult:
    return made_run(method)._replace(rows=[{"round": 0, **ROW, "errors": errors}])


def test_one_entry_is_enough_for_a_new_score(errors: str) -> None:
    logits, y = torch.eye(3), torch.tensor([0, 1, 1])
    sums = count_all(Outputs(logits, logits), Batch(logits, y, torch.ones_like(y)))
    scores = Scoring(Shots((0,), (1,), (2,)), "abc").scores(sums)
    assert scores[errors] == pytest.approx(1 / 3)
    found = compare_results([run("fedavg", 0.5), run("scaffold", 0.25)], score=errors)
    lines = render_markdown(found).splitlines()
    (head, *_) = (line for line in lines if line.startswith("| method"))
    assert "wrong" in head
    assert "**25.0**" in next(line for line in lines if line.startswith("| scaffold"))
    values = [row[errors] for row in csv.DictReader(io.StringIO(render_csv(found)))]
    assert values == ["0.5", "0.25"]
    assert "wrong %" in header([])
    sweep = make_sweep({"methods": ["fedavg"], "table": {"score": errors}})
    assert sweep.table.score == errors


def test_summaries_and_checks_of_rows_follow_the_catalogue(errors: str) -> None:
    rows = [{"round": place, **ROW, errors: value} for place, value in enumerate((0.4, 0.2, 0.3))]
    summary = summarise_rows(rows)
    assert summary["best"][errors] == 0.2
    assert summary["mean_last_10"][errors] == pytest.approx(0.3)
    check_rounds(rows, Path("metrics.jsonl"))
    with pytest.raises(DataError, match="row 2: damaged at errors"):
        check_rounds([rows[0], {**rows[1], errors: "many"}], Path("metrics.jsonl"))


def test_a_run_from_before_a_score_has_none_of_it(errors: str) -> None:
    old = {"round": 0, **ROW}
    check_rounds([old], Path("metrics.jsonl"))
    assert summarise_rows([old])["best"][errors] is None
    before = run("scaffold", 0.25)._replace(rows=[old])
    cells = compare_results([run("fedavg", 0.5), before], score=errors).rows[1].cells
    assert cells[errors].mean is None


def test_tables_hold_what_they_always_held() -> None:
    groups = ("head", "medium", "tail")
    usual = ("accuracy", "balanced_accuracy", "macro_f1")
    assert headline() == (*usual, "weighted_f1", "g_mean", *groups, "worst_class_recall")
    to_find = ("positive_recall", "positive_precision", "threshold_recall", "threshold_precision")
    assert shown_in("table") == (*usual, *groups, "worst_class_recall", *to_find)
    assert shown_in("runs") == (*usual, *groups)
    assert shown_in("curve") == (*usual[:2], *groups)
    assert shown_in("line") == ("accuracy", "tail")


def test_methods_may_be_compared_by_any_share_of_the_whole_test_set() -> None:
    assert {"matthews", "auroc", "average_precision", "calibration_error"} < {*comparable()}
    assert not {"cross_entropy", "per_class_auroc"} & {*comparable()}


def test_every_entry_says_what_it_is() -> None:
    for name, entry in catalogue.SCORES.items():
        assert entry.name == name
        assert all((entry.definition, entry.title, entry.short, entry.words))
    assert find("my_own_f1").title == "My own F1"
