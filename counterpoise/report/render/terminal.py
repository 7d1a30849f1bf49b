"""A comparison in the terminal."""

from __future__ import annotations

from collections.abc import Sequence

from rich import box
from rich.console import Console
from rich.table import Table
from rich.text import Text

from counterpoise.report.render.captions import findings, remarks, shown_tables
from counterpoise.report.render.layout import (
    Styled,
    rows_by_problem,
    style_rows,
    title_of,
)
from counterpoise.report.render.verdict_table import verdict_caption, verdict_head, verdict_rows
from counterpoise.results.cells import Row
from counterpoise.results.comparison import Comparison
from counterpoise.results.recommendation import opening

WIDE = 110  # characters; in narrower terminals cells are wrapped and padding is removed
COLOURS = {"†": "green", "‡": "red"}


def print_comparison(comparison: Comparison, console: Console) -> None:
    """Which method to use, two tables per problem (scores; course of the run), verdicts, and what was left out."""
    for paragraph in opening(comparison.recommendations):
        console.print(Text(f"{paragraph}\n", style="bold"))
    for _, caption, columns in shown_tables(comparison):
        for problem, rows in rows_by_problem(comparison).items():
            console.print(_table(comparison, problem, rows, columns, narrow=console.width < WIDE))
        console.print(Text(f"\n{caption}\n", style="dim"))
    if comparison.verdicts:
        console.print(_verdicts(comparison, narrow=console.width < WIDE))
        console.print(Text(f"\n{verdict_caption(comparison)}\n", style="dim"))
    for sentence in (*findings(comparison), *remarks(comparison)):
        console.print(Text(sentence))


def _table(
    comparison: Comparison, problem: str, rows: Sequence[Row], columns: Sequence[str], narrow: bool
) -> Table:
    gap = "\n" if narrow else " "
    table = Table(box=box.SIMPLE_HEAD, show_edge=False, padding=(0, 0 if narrow else 1), title_justify="left")
    table.title = Text(problem, style="bold") if problem else None
    table.add_column("method", no_wrap=True)
    for column in columns:
        table.add_column(title_of(column).replace(" ", gap), justify="right", overflow="fold")
    for row, styled in zip(rows, style_rows(comparison, rows, columns), strict=True):
        table.add_row(Text(row.method), *(_cell(cell, gap) for cell in styled))
    return table


def _verdicts(comparison: Comparison, narrow: bool) -> Table:
    table = Table(box=box.SIMPLE_HEAD, show_edge=False, padding=(0, 0 if narrow else 1))
    gap = "\n" if narrow else " "
    head = verdict_head(comparison)
    numbers = head.index("points")
    for place, title in enumerate(head):
        table.add_column(
            title.replace(" ", gap), justify="right" if place >= numbers else "left", overflow="fold"
        )
    for row in verdict_rows(comparison):
        table.add_row(*map(Text, row))
    return table


def _cell(cell: Styled, gap: str) -> Text:
    text = Text(cell.text.replace("± ", "±").replace(" ", gap), style="bold" if cell.best else "")
    return text.append(cell.mark, style=COLOURS.get(cell.mark, ""))
