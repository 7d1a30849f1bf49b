"""A comparison as terminal output, Markdown, LaTeX, CSV and JSON."""

from __future__ import annotations

from pathlib import Path

from counterpoise.report.diagram import draw_ranks
from counterpoise.report.render.data import render_csv, render_json
from counterpoise.report.render.latex import render_latex
from counterpoise.report.render.markdown import render_markdown
from counterpoise.report.render.terminal import print_comparison
from counterpoise.results.comparison import Comparison
from counterpoise.system.atomic import write_atomically

__all__ = ["print_comparison", "render_csv", "render_json", "render_latex", "render_markdown", "write_tables"]

WRITERS = {
    "table.md": render_markdown,
    "table.tex": render_latex,
    "table.csv": render_csv,
    "table.json": render_json,
}
PICTURES = ("ranks.png", "ranks.svg")


def write_tables(comparison: Comparison, folder: Path) -> list[Path]:
    """Every form of the table, and the diagram of ranks if there is a ranking; returns the paths written."""
    folder.mkdir(parents=True, exist_ok=True)
    for name, render in WRITERS.items():
        # File names may hold bytes that are not valid text.
        write_atomically(folder / name, render(comparison).encode(errors="backslashreplace"))
    pictures = [folder / name for name in PICTURES]
    for path in pictures:
        path.unlink(missing_ok=True)  # a ranking of earlier runs
        if comparison.ranking is not None:
            draw_ranks(comparison.ranking, path, comparison.score)
    return [folder / name for name in WRITERS] + [path for path in pictures if path.exists()]
