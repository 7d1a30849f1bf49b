"""Many problems on one page: methods by problems come first, in Markdown and in the report."""

from __future__ import annotations

from made_runs import made_run, paired_runs

from counterpoise.report.html.study import study
from counterpoise.report.html.tables import matrix
from counterpoise.report.render.markdown import render_markdown
from counterpoise.report.render.matrix import matrix_of
from counterpoise.results.comparison import compare_results
from counterpoise.results.results import RunResult

SEEDS = 7


def _runs() -> list[RunResult]:
    """On the first problem scaffold is better, on the second worse and fedcm never ran."""
    low, high = ([base + seed / 100 for seed in range(SEEDS)] for base in (0.2, 0.6))
    first = paired_runs({"fedavg": low, "scaffold": high, "fedcm": low}, data={"imbalance": 10.0})
    return [*first, *paired_runs({"fedavg": high, "scaffold": low}, data={"imbalance": 50.0})]


def test_the_matrix_holds_every_method_on_every_problem() -> None:
    found = matrix_of(compare_results(_runs()))
    assert found is not None
    assert (found.problems, found.methods) == (
        ["imbalance=10", "imbalance=50"],
        ["fedavg", "scaffold", "fedcm"],
    )
    assert [[(cell.text, cell.best, cell.mark) for cell in row] for row in found.cells] == [
        [("23.0 ± 2.2", False, ""), ("63.0 ± 2.2", True, "")],
        [("63.0 ± 2.2", True, "†"), ("23.0 ± 2.2", False, "‡")],
        [("23.0 ± 2.2", False, ""), ("–", False, "")],
    ]


def test_it_is_the_first_table_of_the_page() -> None:
    comparison = compare_results(_runs())
    first = next(line for line in render_markdown(comparison).splitlines() if line.startswith("|"))
    assert [cell.strip() for cell in first.strip("|").split("|")] == [
        "method",
        "imbalance=10",
        "imbalance=50",
    ]


def test_one_problem_needs_none() -> None:
    comparison = compare_results([made_run("fedavg", 0), made_run("scaffold", 0)])
    assert matrix_of(comparison) is None
    assert render_markdown(comparison).count("imbalance") == 0


def test_the_report_has_it_too() -> None:
    known = study(_runs())
    page = matrix(known)
    assert page.count("<tr>") == 4
    assert "<b>63.0 ± 2.2</b>†" in page
