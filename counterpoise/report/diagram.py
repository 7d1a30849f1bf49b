"""The critical-difference diagram: average ranks on a line, bars over methods without a significant difference (Demsar 2006)."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from counterpoise.metrics.catalogue import find
from counterpoise.report.drawing import new_figure, save
from counterpoise.results.ranking import Ranking
from counterpoise.results.words import show_p

LINE = "#30363d"
BAR = "#0072B2"
STEP = 0.27  # inches between lines of text
BAR_STEP = 0.13
ACROSS = 4.6  # inches of the axis
LETTER = 0.085  # inches


def draw_ranks(ranking: Ranking, path: Path, score: str = "") -> None:
    """Write a PNG or SVG, by the file's ending; the best method is on the left."""
    half = (len(ranking.methods) + 1) // 2
    bars_end = -0.16 - BAR_STEP * len(ranking.groups)
    margin = max(1.2, 0.6 + LETTER * max(map(len, ranking.methods)))
    below, above = -bars_end + STEP * (half + 0.2), 1.15
    figure = new_figure(ACROSS + 2 * margin, below + above, arranged=False)
    axes = figure.add_axes((0, 0, 1, 1), xlim=(-margin, ACROSS + margin), ylim=(-below, above))
    axes.set_axis_off()
    _draw_axis(axes, ranking, score)
    _draw_groups(axes, ranking)
    for place, (method, rank) in enumerate(zip(ranking.methods, ranking.average_ranks, strict=True)):
        on_left = place < half
        depth = place if on_left else len(ranking.methods) - 1 - place
        _draw_method(axes, method, rank, _along(rank, ranking), bars_end - STEP * (depth + 0.5), on_left)
    save(figure, path)


def _along(rank: float, ranking: Ranking) -> float:
    """Position on the axis in inches."""
    return (rank - 1) / (len(ranking.methods) - 1) * ACROSS


def _draw_axis(axes: Any, ranking: Ranking, score: str) -> None:
    axes.plot([0, ACROSS], [0, 0], color=LINE, linewidth=1.2)
    for rank in range(1, len(ranking.methods) + 1, 1 + len(ranking.methods) // 20):
        x = _along(rank, ranking)
        axes.plot([x, x], [0, 0.07], color=LINE, linewidth=1.2)
        axes.text(x, 0.11, str(rank), ha="center", va="bottom", fontsize=8.5)
    distance = _along(1 + ranking.critical_difference, ranking)
    axes.plot([0, distance], [0.5, 0.5], color=LINE, linewidth=1.2, marker="|", markersize=7)
    axes.text(0, 0.58, f"critical difference {ranking.critical_difference:.2f}", fontsize=8.5, va="bottom")
    found = "" if ranking.differs else ": no two methods differ significantly"
    title = f"Average rank by {find(score).words} over {ranking.blocks} blocks ({ranking.unit}); 1 is best"
    test = f"Friedman {show_p(ranking.p)}{found}"
    middle = ACROSS / 2
    axes.text(middle, 1.02, title, ha="center", va="center", fontsize=9.5, parse_math=False)
    axes.text(middle, 0.85, test, ha="center", va="center", fontsize=8.5, color="#57606a")


def _draw_groups(axes: Any, ranking: Ranking) -> None:
    ranks = dict(zip(ranking.methods, ranking.average_ranks, strict=True))
    for place, group in enumerate(ranking.groups):
        height = -0.14 - BAR_STEP * place
        ends = [_along(ranks[group[0]], ranking) - 0.05, _along(ranks[group[-1]], ranking) + 0.05]
        axes.plot(ends, [height] * 2, color=BAR, linewidth=4, solid_capstyle="round")


def _draw_method(axes: Any, method: str, rank: float, x: float, y: float, on_left: bool) -> None:
    """A line from the axis to the method's name."""
    edge = -0.1 if on_left else ACROSS + 0.1
    axes.plot([x, x, edge], [0, y, y], color=LINE, linewidth=0.9)
    text = f"{method}  {rank:.2f}" if on_left else f"{rank:.2f}  {method}"
    side = {"x": edge - 0.06, "ha": "right"} if on_left else {"x": edge + 0.06, "ha": "left"}
    axes.text(y=y, s=text, va="center", fontsize=9, parse_math=False, **side)
