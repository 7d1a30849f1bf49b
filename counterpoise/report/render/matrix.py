"""Many problems on one page: methods by problems, one score, before all other tables."""

from __future__ import annotations

from typing import NamedTuple

from counterpoise.metrics.catalogue import capital, find
from counterpoise.report.render.layout import Styled, rows_by_problem, style_rows
from counterpoise.results.comparison import Comparison

NOTHING = Styled("–", False, "")  # of a method without a finished run of the problem


class Matrix(NamedTuple):
    """Cells [methods, problems] of the score that methods are compared by."""

    problems: list[str]
    methods: list[str]
    cells: list[list[Styled]]
    caption: str


def matrix_of(comparison: Comparison) -> Matrix | None:
    """The matrix, where there are several problems."""
    by_problem = rows_by_problem(comparison)
    if len(by_problem) < 2:
        return None
    methods = list(dict.fromkeys(row.method for row in comparison.rows))
    styled = {
        (row.method, problem): cell
        for problem, rows in by_problem.items()
        for row, [cell] in zip(rows, style_rows(comparison, rows, [comparison.score]), strict=True)
    }
    cells = [[styled.get((method, problem), NOTHING) for problem in by_problem] for method in methods]
    return Matrix(list(by_problem), methods, cells, _caption(comparison))


def _caption(comparison: Comparison) -> str:
    return (
        f"{capital(find(comparison.score).words)} in percent of every method on every problem, mean ± sample deviation over seeds;"
        f" the best mean of a problem is bold. † better, ‡ worse than {comparison.baseline} there."
    )
