"""The tables: scores of each method, then costs."""

from __future__ import annotations

from counterpoise.metrics.catalogue import capital, find
from counterpoise.report.html.markup import (
    Html,
    Show,
    breakable,
    bytes_,
    element,
    join,
    number,
    number_cell,
    percent,
    seconds,
    table,
)
from counterpoise.report.html.study import Study
from counterpoise.report.render.layout import rows_by_problem, usual_scores
from counterpoise.report.render.matrix import matrix_of
from counterpoise.results.cells import At, Cell, Row, best_methods

MOMENT_WORDS: dict[At, str] = {
    "last": "last round",
    "best": "best round",
    "mean_last_10": "mean of the last 10 evaluations",
}
SIGNS = {"better": "▲", "worse": "▼", "no evidence": "○"}
Columns = dict[str, tuple[str, Show]]  # key of a cell -> title and how to write it
# Scores of the first columns, which a screen of 1280 pixels shows: the report is about imbalance.
FIRST = ("balanced_accuracy", "tail", "worst_class_recall")
COSTS: Columns = {
    "last": ("Last", percent),
    "best": ("Best", percent),
    "mean_last_10": ("Last 10", percent),
    "rounds_to_target": ("Rounds to target", number),
    "bytes_to_target": ("Sent to target", bytes_),
    "seconds_to_target": ("Time to target", seconds),
    "bytes": ("Sent in all", bytes_),
    "seconds": ("Time in all", seconds),
}


def matrix(study: Study) -> Html:
    """Methods by problems, before all else; nothing where there is one problem."""
    if (found := matrix_of(study.comparison)) is None:
        return Html()
    rows = [
        [
            method,
            *(element("td", element("b" if cell.best else "span", cell.text), cell.mark) for cell in cells),
        ]
        for method, cells in zip(found.methods, found.cells, strict=True)
    ]
    return table(found.caption, ["Method", *map(breakable, found.problems)], rows, class_="matrix")


def tables(study: Study) -> Html:
    """Scores, then costs."""
    score = study.comparison.score
    usual = usual_scores(study.comparison)
    keys = list(dict.fromkeys([score, *(key for key in FIRST if key in usual), *usual]))
    scores: Columns = {key: (capital(find(key).short), _show_score(key)) for key in keys}
    moment = MOMENT_WORDS[study.comparison.at]
    first = (
        f"Scores in percent, {moment}, mean ± sample deviation over seeds; the best mean of a column is bold"
    )
    targets = [f"{100 * t:.1f} %" for t in study.comparison.targets.values() if t is not None]
    aim = f"; the target is {' or '.join(dict.fromkeys(targets))}" if 0 < len(targets) <= 3 else ""
    second = f"{find(score).title} at three moments, and what a run sends and takes{aim}"
    return join([_table(study, first, scores, True), _table(study, second, COSTS, False)])


def _table(study: Study, caption: str, columns: Columns, judged: bool) -> Html:
    extra = [f"Against {study.comparison.baseline}"] if judged and study.comparison.verdicts else []
    uneven = len({row.seeds for row in study.comparison.rows}) > 1
    titles = [
        "Method",
        *problem_head(study),
        *(["Seeds"] if uneven else []),
        *extra,
        *[name for name, _ in columns.values()],
    ]
    best = _best_of_each(study, columns)
    rows = [
        [
            element("span", _mark(study, row.method), element("span", breakable(row.method)), class_="name"),
            *problem_cells(study, row.problem),
            *([element("td", str(len(row.seeds)), data_value=len(row.seeds))] if uneven else []),
            *([_judgement(study, row)] if extra else []),
            *(
                _cell(row.cells[key], show, row.method in best[row.problem, key])
                for key, (_, show) in columns.items()
            ),
        ]
        for row in study.comparison.rows
    ]
    return table(caption, titles, rows, class_="sortable")


def _mark(study: Study, method: str) -> Html:
    """A placeholder for the method's line and marker, which the script draws."""
    return element("span", class_="key", data_method=study.methods.index(method), aria_hidden="true")


def _best_of_each(study: Study, columns: Columns) -> dict[tuple[str, str], set[str]]:
    """The best methods by problem and column."""
    return {
        (problem, key): best_methods(rows, key, study.comparison.score)
        for problem, rows in rows_by_problem(study.comparison).items()
        for key in columns
    }


def _cell(cell: Cell, show: Show, best: bool) -> Html:
    if cell.mean is None:
        return number_cell(None, show)
    spread = element("span", f" ± {show(cell.deviation)}", class_="dev") if cell.deviation else Html()
    mean = element("b" if best else "span", show(cell.mean))
    lost = len(cell.values) - len(cell.known)
    missing = element("span", f"{lost} of {len(cell.values)} never", class_="dev never") if lost else Html()
    return element("td", mean, spread, missing, data_value=repr(float(cell.mean)))


def _judgement(study: Study, row: Row) -> Html:
    found = [v for v in study.comparison.verdicts if (v.method, v.problem) == (row.method, row.problem)]
    if not found:
        return element("td", "baseline" if row.method == study.comparison.baseline else "–", data_value="0")
    v = found[0]
    return element(
        "td",
        f"{SIGNS[v.verdict]} {100 * v.difference:+.1f}",
        element("span", v.verdict, class_="dev never"),
        class_=v.verdict.replace(" ", "-"),
        data_value=repr(v.difference),
    )


def _show_score(name: str) -> Show:
    return percent if find(name).unit == "percent" else lambda value: f"{value:.3g}"


def problem_head(study: Study) -> list[Html]:
    """The column of the problem, where there are several."""
    return [element("th", "Problem", scope="col", class_="words")] if len(study.problems) > 1 else []


def problem_cells(study: Study, problem: str) -> list[Html]:
    """The cell of that column."""
    cell = element("td", problem, class_="words narrow", data_value=problem)
    return [cell] if len(study.problems) > 1 else []
