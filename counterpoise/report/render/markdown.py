"""A comparison as Markdown."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Sequence

from counterpoise.report.render.captions import findings, remarks, shown_tables
from counterpoise.report.render.layout import (
    Styled,
    rows_by_problem,
    style_rows,
    title_of,
)
from counterpoise.report.render.matrix import matrix_of
from counterpoise.report.render.verdict_table import verdict_caption, verdict_head, verdict_rows
from counterpoise.results.cells import Row
from counterpoise.results.comparison import Comparison
from counterpoise.results.recommendation import opening


def render_markdown(comparison: Comparison) -> str:
    """Which method to use, all problems in one table where there are several, two tables per problem (scores; course of the run), verdicts, and what was left out."""
    return "\n".join(_lines(comparison)) + "\n"


def escape(text: str) -> str:
    """Text with the special characters of Markdown escaped, for table cells too."""
    return re.sub(r"([\\|*`<\[\]])", r"\\\1", " ".join(text.split()))


def _lines(comparison: Comparison) -> Iterator[str]:
    for paragraph in opening(comparison.recommendations):
        yield escape(paragraph)
        yield ""
    yield from _matrix(comparison)
    for _, caption, columns in shown_tables(comparison):
        for problem, rows in rows_by_problem(comparison).items():
            yield from _heading(problem)
            yield from _table(comparison, rows, columns)
            yield ""
        yield escape(caption)
        yield ""
    if comparison.verdicts:
        yield from aligned(
            verdict_head(comparison), [[*map(escape, row)] for row in verdict_rows(comparison)]
        )
        yield from ["", escape(verdict_caption(comparison)), ""]
    yield from _list(findings, comparison)
    yield from _list(remarks, comparison)


def _matrix(comparison: Comparison) -> Iterator[str]:
    if (found := matrix_of(comparison)) is None:
        return
    body = [
        [escape(method), *map(_cell, cells)] for method, cells in zip(found.methods, found.cells, strict=True)
    ]
    yield from aligned(["method", *map(escape, found.problems)], body)
    yield from ["", escape(found.caption), ""]


def _heading(problem: str) -> list[str]:
    return [f"**{escape(problem)}**", ""] if problem else []


def _table(comparison: Comparison, rows: Sequence[Row], columns: Sequence[str]) -> Iterator[str]:
    header = ["method", "seeds", *map(title_of, columns)]
    body = [
        [escape(row.method), str(len(row.seeds)), *map(_cell, styled)]
        for row, styled in zip(rows, style_rows(comparison, rows, columns), strict=True)
    ]
    yield from aligned(header, body)


def aligned(header: list[str], body: list[list[str]]) -> Iterator[str]:
    """A table whose columns line up; the first stands left, numbers right."""
    widths = [max(map(len, column)) for column in zip(header, *body, strict=True)]
    rule = ["-" * widths[0], *("-" * (width - 1) + ":" for width in widths[1:])]
    for line in [header, rule, *body]:
        first, *rest = zip(line, widths, strict=True)
        yield f"| {' | '.join([first[0].ljust(first[1]), *(text.rjust(width) for text, width in rest)])} |"


def _cell(cell: Styled) -> str:
    return f"{f'**{cell.text}**' if cell.best else cell.text}{cell.mark}"


def _list(sentences: Callable[[Comparison], Iterator[str]], comparison: Comparison) -> Iterator[str]:
    lines = [f"- {escape(sentence)}" for sentence in sentences(comparison)]
    yield from [*lines, ""] if lines else []
