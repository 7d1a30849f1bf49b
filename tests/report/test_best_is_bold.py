"""One rule says which method of a column is bold, in every form of the table."""

from __future__ import annotations

import io
import re

import pytest
from made_runs import made_run
from rich.console import Console

from counterpoise.report.html.overview import verdicts
from counterpoise.report.html.study import study
from counterpoise.report.html.tables import tables
from counterpoise.report.render import print_comparison, render_latex, render_markdown
from counterpoise.results.cells import Cell, Row, best_methods
from counterpoise.results.comparison import Comparison, compare_results
from counterpoise.results.results import RunResult

SCORE = "calibration_error"
LATEX = r"\textbf{%s}"
MARKDOWN = "**%s**"
TERMINAL = "\x1b[1m%s\x1b[0m"
HTML = "<b>%s</b>"


def runs_of(errors: dict[str, float]) -> list[RunResult]:
    """One run a method with that calibration error; all other scores are equal."""
    return [made_run(method, 0, [0.5], calibration=[error]) for method, error in errors.items()]


def in_terminal(comparison: Comparison) -> str:
    console = Console(file=io.StringIO(), width=200, force_terminal=True, color_system="standard")
    print_comparison(comparison, console)
    return console.file.getvalue()  # type: ignore[attr-defined, no-any-return]


def written(errors: dict[str, float]) -> dict[str, str]:
    """The tables by how they write bold."""
    runs = runs_of(errors)
    comparison = compare_results(runs, score=SCORE)
    return {
        MARKDOWN: render_markdown(comparison),
        LATEX: render_latex(comparison),
        TERMINAL: in_terminal(comparison),
        HTML: tables(study(runs, score=SCORE)),
    }


def counts(text: str, bold: str, shown: str) -> int:
    """How many cells with this text are bold; a terminal pads them."""
    before, after = map(re.escape, bold.split("%s"))
    return len(re.findall(rf"{before} *{re.escape(shown)} *{after}", text))


@pytest.mark.parametrize("bold", [MARKDOWN, LATEX, TERMINAL, HTML])
def test_of_an_error_the_lowest_is_bold_at_every_moment(bold: str) -> None:
    text = written({"fedavg": 0.1, "scaffold": 0.3})[bold]
    assert counts(text, bold, "10.0") == 4  # the score, last, best and mean of last 10
    assert counts(text, bold, "30.0") == 0


@pytest.mark.parametrize("bold", [MARKDOWN, LATEX, TERMINAL, HTML])
def test_equals_are_bold_together_unless_all_are_equal(bold: str) -> None:
    # 0.1 + 0.2 is a little more than 0.3: a rounding error decides nothing.
    text = written({"fedavg": 0.1 + 0.2, "scaffold": 0.3, "fedcm": 0.4})[bold]
    assert counts(text, bold, "30.0") == 8
    text = written({"fedavg": 0.1 + 0.2, "scaffold": 0.3})[bold]
    assert counts(text, bold, "30.0") == 0


def test_the_report_names_all_that_lead_and_none_where_all_are_equal() -> None:
    equal = study(runs_of({"fedavg": 0.3, "scaffold": 0.3, "fedcm": 0.4}), score=SCORE)
    assert "Lowest mean calibration error: fedavg, 30.0\u00a0% and scaffold, 30.0\u00a0%." in verdicts(equal)
    assert "Lowest mean" not in verdicts(study(runs_of({"fedavg": 0.3, "scaffold": 0.3}), score=SCORE))


def row_of(method: str, *values: float | None) -> Row:
    return Row("", method, tuple(range(len(values))), {"last": Cell(values), "bytes": Cell(values)})


def test_a_moment_goes_by_the_score_and_a_cost_by_itself() -> None:
    rows = [row_of("a", 1.0, 2.0), row_of("b", 3.0, 4.0)]
    assert best_methods(rows, "last", "accuracy") == {"b"}
    assert best_methods(rows, "last", SCORE) == {"a"}
    assert best_methods(rows, "bytes", "accuracy") == {"a"}


def test_only_methods_with_a_value_for_every_seed_can_be_best() -> None:
    whole, broken, lost = row_of("a", 0.1, 0.1), row_of("b", 0.9, None), row_of("c", None, None)
    assert best_methods([whole, broken, lost], "last", "accuracy") == {"a"}
    assert best_methods([broken, lost], "last", "accuracy") == set()


def test_a_single_method_is_not_the_best_of_anything() -> None:
    assert best_methods([row_of("a", 0.1)], "last", "accuracy") == set()
