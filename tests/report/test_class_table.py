"""The report holds all scores of each class; runs from before a score have none of it."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from counterpoise.report.html.classes import class_table
from counterpoise.report.html.page import render
from counterpoise.report.html.study import study
from counterpoise.results.results import RunResult, read_results

NEW = ("matthews", "auroc", "average_precision", "per_class_auroc", "per_class_average_precision")


def forget(run: RunResult) -> RunResult:
    """The run as it was written before there were these scores."""
    rows: list[dict[str, Any]] = [
        {key: value for key, value in row.items() if key not in NEW} for row in run.rows
    ]
    return run._replace(rows=rows)


def test_every_score_of_every_class_is_there(runs: Path) -> None:
    found = study(read_results([runs]))
    table = class_table(found)
    for title in ("Recall", "Precision", "F1", "AUROC", "AP"):
        assert f'<th scope="col">{title}</th>' in table
    group = next(iter(found.groups.values()))
    values = [run.scored[-1]["per_class_auroc"][0] for run in group]
    assert f'data-value="{sum(values) / len(values)!r}"' in table
    assert table.count("<tr>") == 1 + 10 * len(found.groups)


def test_runs_from_before_these_scores_are_reported_without_them(runs: Path) -> None:
    old = study([forget(run) for run in read_results([runs])])
    assert '<td data-value="">–</td>' in class_table(old)
    assert "AUROC" in render(old)
