"""Clients by classes as a heat map, with totals at its edges."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np

from counterpoise.data.skew import Counts
from counterpoise.report.drawing import new_figure, save, write_counts

COLOURS = "viridis_r"  # even steps in grey and for the colour-blind, without white, which stands for zero
BAR = "#5f6b7a"
DARK = 0.45  # of the scale of colours, above which numbers are white
MOST_NUMBERS = 300  # cells up to which counts are written
MOST_BARS = (
    2000  # above it one outline is drawn: there are fewer rows of pixels, and each bar takes a millisecond
)
LONGEST_NAME = 22


def draw_heatmap(
    counts: Counts,
    classes: Sequence[str],
    path: Path,
    title: str = "",
    client_names: Sequence[str] | None = None,
) -> None:
    """Write a PNG of samples by client (row) and class (column): logarithmic colours, white for none."""
    clients, width = counts.shape
    across, down = _inches(width, 0.5, 4.5, 12.5), _inches(clients, 0.27, 2.4, 13.0)
    figure = new_figure(across + 2.9, down + 2.2)
    grid = figure.add_gridspec(2, 3, width_ratios=[across, 1.3, 0.18], height_ratios=[0.9, down])
    cells = figure.add_subplot(grid[1, 0])
    image = _draw_cells(cells, counts)
    name_ticks(cells.xaxis, classes, across, 8.5)
    name_ticks(cells.yaxis, client_names or [str(k) for k in range(clients)], down, 5)
    cells.set(xlabel="class", ylabel="client")
    legend = figure.add_subplot(grid[1, 2])
    figure.colorbar(image, cax=legend, label="samples (white: none)", format="{x:g}")
    _draw_totals(figure.add_subplot(grid[0, 0], sharex=cells), counts.sum(axis=0), upright=True)
    _draw_totals(figure.add_subplot(grid[1, 1], sharey=cells), counts.sum(axis=1), upright=False)
    figure.suptitle(title, parse_math=False)
    save(figure, path)


def _inches(count: int, each: float, least: float, most: float) -> float:
    return min(max(count * each, least), most)


def _draw_cells(axes: Any, counts: Counts) -> Any:
    from matplotlib.colors import LogNorm

    scale = LogNorm(1, max(int(counts.max()), 2))
    image = axes.imshow(
        np.ma.masked_equal(counts, 0), COLOURS, norm=scale, aspect="auto", interpolation="nearest"
    )
    axes.spines[:].set_color(BAR)
    if counts.size <= MOST_NUMBERS:
        write_counts(axes, counts, np.ma.filled(scale(counts), 0.0), DARK)
    return image


def name_ticks(axis: Any, names: Sequence[str], inches: float, most_per_inch: float) -> None:
    """As many names as fit, at round distances; vertical under the columns where they are too long."""
    step = next(s for s in (1, 2, 5, 10, 20, 50, 100, len(names)) if len(names) <= most_per_inch * inches * s)
    shown = [name if len(name) <= LONGEST_NAME else name[: LONGEST_NAME - 1] + "…" for name in names[::step]]
    flat = axis.axis_name == "y" or max(map(len, shown)) * 0.09 < inches * step / len(names)
    axis.set_ticks(
        range(0, len(names), step), shown, fontsize=8, rotation=0 if flat else 90, parse_math=False
    )


def _draw_totals(axes: Any, totals: Counts, upright: bool) -> None:
    draw, value_axis = (axes.bar, axes.yaxis) if upright else (axes.barh, axes.xaxis)
    if len(totals) <= MOST_BARS:
        draw(range(len(totals)), totals, 0.85, color=BAR)
    else:
        edges = np.arange(len(totals) + 1) - 0.5
        side = "vertical" if upright else "horizontal"
        axes.stairs(totals, edges, orientation=side, fill=True, color=BAR)
    axes.tick_params(labelbottom=not upright, labelleft=upright, labelsize=8)
    (axes.xaxis if upright else axes.yaxis).set_ticks_position("none")
    value_axis.set_major_locator(_few_whole_numbers())
    value_axis.set_label_text("samples", fontsize=8)
    axes.spines[["top", "right"]].set_visible(False)


def _few_whole_numbers() -> Any:
    from matplotlib.ticker import MaxNLocator

    return MaxNLocator(3, integer=True)
