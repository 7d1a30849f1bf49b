"""What the tables share: columns and titles, cells as text, and which are highlighted."""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

from counterpoise.metrics.catalogue import find, shown_in, worth_showing
from counterpoise.results.cells import MOMENTS, TO_TARGET, TOTALS, Cell, Row, best_methods
from counterpoise.results.comparison import Comparison

TITLES = {
    "mean_last_10": "mean of last 10",
    "rounds_to_target": "rounds to target",
    "bytes_to_target": "MB to target",
    "seconds_to_target": "s to target",
    "bytes": "MB",
    "seconds": "s",
}
COSTS = (*TO_TARGET, *TOTALS)
COURSE = (*MOMENTS, *COSTS)
MARKS = {"better": "†", "worse": "‡", "no evidence": ""}
MEGABYTES = 1e-6


class Styled(NamedTuple):
    """A cell's text and its highlighting."""

    text: str
    best: bool
    mark: str


def usual_scores(comparison: Comparison) -> tuple[str, ...]:
    """Scores of every table, and those that some of these runs have."""
    known = {key for row in comparison.rows for key, cell in row.cells.items() if cell.known}
    return worth_showing(shown_in("table"), known.__contains__)


def score_columns(comparison: Comparison) -> tuple[str, ...]:
    usual = usual_scores(comparison)
    return usual if comparison.score in usual else (comparison.score, *usual)


def title_of(column: str) -> str:
    return TITLES.get(column) or find(column).short


def rows_by_problem(comparison: Comparison) -> dict[str, list[Row]]:
    found: dict[str, list[Row]] = {}
    for row in comparison.rows:
        found.setdefault(row.problem, []).append(row)
    return found


def style_rows(comparison: Comparison, rows: Sequence[Row], columns: Sequence[str]) -> list[list[Styled]]:
    """Cells of the rows of one problem: the best mean of each column, and the verdict's mark at the score."""
    best = {column: best_methods(rows, column, comparison.score) for column in columns}
    marks = {(v.problem, v.method): MARKS[v.verdict] for v in comparison.verdicts}

    def style(row: Row, column: str) -> Styled:
        mark = marks.get((row.problem, row.method), "") if column == comparison.score else ""
        return Styled(show_cell(row.cells[column], column), row.method in best[column], mark)

    return [[style(row, column) for column in columns] for row in rows]


def show_cell(cell: Cell, column: str) -> str:
    """``mean ± deviation`` over seeds, scores in percent; with the number of seeds where only some have a value."""
    if cell.mean is None:
        return "never" if column in TO_TARGET else "n/a"
    scale = _scale(column)
    digits = 2 if column in COSTS and scale * cell.mean < 10 else 1
    spread = "" if cell.deviation is None else f" ± {scale * cell.deviation:.{digits}f}"
    some = f" ({len(cell.known)}/{len(cell.values)})" if len(cell.known) < len(cell.values) else ""
    return f"{scale * cell.mean:.{digits}f}{spread}{some}"


def _scale(column: str) -> float:
    if column in ("bytes", "bytes_to_target"):
        return MEGABYTES
    return 100.0 if column in MOMENTS or (column not in COSTS and find(column).unit == "percent") else 1.0
