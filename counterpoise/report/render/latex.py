"""A comparison as LaTeX tables with booktabs."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from counterpoise.report.render.captions import shown_tables
from counterpoise.report.render.layout import (
    Styled,
    rows_by_problem,
    style_rows,
    title_of,
)
from counterpoise.results.cells import Row
from counterpoise.results.comparison import Comparison

SPECIAL = str.maketrans(
    {
        "\\": r"\textbackslash{}",
        "{": r"\{",
        "}": r"\}",
        "$": r"\$",
        "&": r"\&",
        "#": r"\#",
        "%": r"\%",
        "_": r"\_",
        "^": r"\textasciicircum{}",
        "~": r"\textasciitilde{}",
        "<": r"\textless{}",
        ">": r"\textgreater{}",
        "|": r"\textbar{}",
        "±": r"$\pm$",
        "†": r"$^\dagger$",
        "‡": r"$^\ddagger$",
        "\n": " ",
    }
)


def render_latex(comparison: Comparison) -> str:
    """Two floats: scores, and the course of the runs."""
    lines = ["% needs \\usepackage{booktabs}"]
    for name, caption, columns in shown_tables(comparison):
        lines += _float(comparison, name, escape(caption), columns)
    return "\n".join(lines) + "\n"


def escape(text: str) -> str:
    """Text with the special characters of LaTeX escaped."""
    return text.translate(SPECIAL)


def _float(comparison: Comparison, name: str, caption: str, columns: Sequence[str]) -> Iterator[str]:
    yield r"\begin{table*}"
    yield r"\centering\small\setlength{\tabcolsep}{4pt}"
    yield rf"\caption{{{caption}}}"
    yield rf"\label{{tab:comparison-{name}}}"
    yield rf"\begin{{tabular}}{{l{'r' * len(columns)}}}"
    yield r"\toprule"
    yield _line(["Method", *(escape(title_of(column)) for column in columns)])
    for problem, rows in rows_by_problem(comparison).items():
        yield r"\midrule"
        if problem:
            yield rf"\multicolumn{{{len(columns) + 1}}}{{l}}{{\emph{{{escape(problem)}}}}} \\"
        yield from _body(comparison, rows, columns)
    yield r"\bottomrule"
    yield r"\end{tabular}"
    yield r"\end{table*}"


def _body(comparison: Comparison, rows: Sequence[Row], columns: Sequence[str]) -> Iterator[str]:
    for row, styled in zip(rows, style_rows(comparison, rows, columns), strict=True):
        yield _line([escape(row.method), *map(_cell, styled)])


def _cell(cell: Styled) -> str:
    text = escape(cell.text)
    return (rf"\textbf{{{text}}}" if cell.best else text) + escape(cell.mark)


def _line(cells: Sequence[str]) -> str:
    return " & ".join(cells) + r" \\"
