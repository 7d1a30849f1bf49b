"""Methods side by side: recall of head, medium and tail classes as bars."""

from __future__ import annotations

import statistics
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from counterpoise.report.curves import SCORES
from counterpoise.report.table import group_by_method

GROUPS = ("head", "medium", "tail")


def draw_comparison(summaries: Sequence[Mapping[str, Any]], path: Path, title: str = "") -> None:
    """Write a PNG: for each method three bars with the deviation over seeds and a dot for the balanced accuracy."""
    from matplotlib.backends.backend_agg import FigureCanvasAgg
    from matplotlib.figure import Figure

    groups = group_by_method(summaries)
    figure = Figure(figsize=(9, 0.55 * len(groups) + 1.6), dpi=120, layout="constrained")
    FigureCanvasAgg(figure)
    axes = figure.subplots()
    for place, group in enumerate(GROUPS):
        means, deviations = zip(*(_mean_and_deviation(runs, group) for runs in groups.values()), strict=True)
        heights = [row + (place - 1) * 0.26 for row in range(len(groups))]
        axes.barh(
            heights,
            means,
            0.24,
            xerr=deviations,
            color=SCORES[group],
            label=group,
            error_kw={"elinewidth": 0.8},
        )
    balanced = [_mean_and_deviation(runs, "balanced_accuracy")[0] for runs in groups.values()]
    axes.plot(balanced, range(len(groups)), "D", color="black", markersize=5, label="balanced accuracy")
    axes.set_yticks(range(len(groups)), list(groups))
    axes.invert_yaxis()
    axes.set(xlim=(0, 1), xlabel="recall on the test set", title=title)
    axes.legend(loc="upper center", bbox_to_anchor=(0.5, -0.12), ncols=4, frameon=False, fontsize=8)
    axes.grid(axis="x", alpha=0.3)
    axes.spines[["top", "right"]].set_visible(False)
    figure.savefig(path)


def _mean_and_deviation(runs: Sequence[Mapping[str, Any]], key: str) -> tuple[float, float]:
    known = [run[key] for run in runs if run[key] is not None]
    if not known:
        return 0.0, 0.0
    return statistics.fmean(known), statistics.stdev(known) if len(known) > 1 else 0.0
