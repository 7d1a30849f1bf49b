"""The scores of each class as a table, folded: one row a class and method."""

from __future__ import annotations

from collections.abc import Sequence

from counterpoise.metrics.catalogue import PER_CLASS, SCORES, capital, find
from counterpoise.report.html.markup import Html, element, table
from counterpoise.report.html.study import Study
from counterpoise.report.html.tables import PROBLEM, problem_cell
from counterpoise.report.html.units import percent
from counterpoise.results.cells import Cell
from counterpoise.results.results import RunResult

MOST_ROWS = 400  # what one still looks through; a page must stay small
CAPTION = "Scores of each class in percent, last round, mean over seeds; AUROC and AP are of the class against the rest"


def class_table(study: Study) -> Html:
    """From the most to the least frequent class; nothing where it would be too long."""
    rows = [row for labels, runs in study.groups.items() for row in _rows(study, *labels, runs)]
    if not 0 < len(rows) <= MOST_ROWS:
        return Html()
    several = [PROBLEM] if len(study.problems) > 1 else []
    head = ["Class", "Method", *several, "Samples", *(capital(find(key).short) for key in _lists())]
    whole = table(CAPTION, head, rows, class_="sortable")
    return element("details", element("summary", "All scores of each class"), whole, class_="quiet")


def _lists() -> list[str]:
    return [name for name in SCORES if name.startswith(PER_CLASS)]


def _rows(study: Study, problem: str, method: str, runs: Sequence[RunResult]) -> list[list[str]]:
    data = runs[0].record["data"]
    counts, where = data["class_counts"], [problem_cell(problem)] if len(study.problems) > 1 else []
    order = sorted(range(len(counts)), key=lambda c: (-counts[c], c))
    return [
        [
            data["classes"][c],
            element("td", method, class_="words"),
            *where,
            element("td", str(counts[c]), data_value=counts[c]),
            *(_mean(runs, key, c) for key in _lists()),
        ]
        for c in order
    ]


def _mean(runs: Sequence[RunResult], key: str, c: int) -> Html:
    """A run from before the score was there has none of it."""
    mean = Cell(tuple(run.scored[-1].get(key, {c: None})[c] for run in runs)).mean
    return element(
        "td", "–" if mean is None else percent(mean), data_value="" if mean is None else repr(mean)
    )
