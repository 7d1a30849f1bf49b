"""Figures for a paper that compare methods: the score over rounds, and the recall of every class."""

from __future__ import annotations

import math
from collections.abc import Sequence
from pathlib import Path
from typing import Any, NamedTuple

from counterpoise.metrics.catalogue import find
from counterpoise.report.drawing import COLOURS, MARKS, new_figure, save
from counterpoise.report.html.classes import class_data
from counterpoise.report.html.curves import curve
from counterpoise.report.html.study import Numbers, Study

ENDINGS = (".png", ".svg")
MOST_ACROSS = 3  # panels side by side
MOST_NAMED = 20  # classes up to which each is labelled
MOST_POINTS = 400  # of a curve
LINES = ("-", "--", ":")  # the next style once all colours are used
SHADE, FAINT = 0.15, 0.05  # opacity of deviations; the fainter one with many methods
MOST_SHADED = 6  # methods


class Line(NamedTuple):
    """One method in a panel: means by x, and deviations over seeds."""

    x: Sequence[int]
    means: Numbers
    deviations: Numbers | None


Lines = dict[tuple[int, int], Line]  # by number of problem and method


def write_figures(study: Study, folder: Path) -> list[Path]:
    """`curves` and `recall`, each as PNG and SVG, one panel per problem; returns the paths written."""
    if not study.groups:
        return []
    figures = {"curves": draw_scores(study), "recall": draw_recall(study)}
    paths = {folder / f"{name}{ending}": figure for name, figure in figures.items() for ending in ENDINGS}
    for path, figure in paths.items():
        save(figure, path)
    return list(paths)


def draw_scores(study: Study) -> Any:
    """The score that the methods are tested on, over rounds: mean and sample deviation over seeds."""
    score = study.comparison.score
    drawn = {key: curve(runs, lambda row: row.get(score), MOST_POINTS) for key, runs in study.groups.items()}
    lines = {study.place(*key): Line(*found) for key, found in drawn.items() if found is not None}
    figure, panels = _draw_panels(study, lines, sharey=False)
    for axes in panels:
        axes.set(xlabel="round")
        axes.xaxis.get_major_locator().set_params(integer=True)  # there is no round 7.5
    panels[0].set(ylabel=f"{find(score).words} in percent")
    return figure


def draw_recall(study: Study) -> Any:
    """The recall of each class after the last round, from the most to the least frequent one."""
    classes = class_data(study)
    lines = {
        (problem, one["method"]): Line(range(len(one["recall"][0])), *one["recall"])
        for problem, found in enumerate(classes)
        for one in found["recalls"]
    }
    figure, panels = _draw_panels(study, lines, sharey=True)
    for axes, found in zip(panels, classes, strict=True):
        axes.set(xlabel="class (its training samples), by frequency")
        if len(found["names"]) <= MOST_NAMED:
            sizes = (
                [f" ({size})" for size in found["counts"]] if found["counts"] else [""] * len(found["names"])
            )
            names = [f"{name}{size}" for name, size in zip(found["names"], sizes, strict=True)]
            axes.set_xticks(range(len(names)), names, rotation=40, ha="right", fontsize=7, parse_math=False)
    panels[0].set(ylabel="recall in percent")
    return figure


def _draw_panels(study: Study, lines: Lines, sharey: bool) -> tuple[Any, list[Any]]:
    """One panel per problem with one line per method, and one legend."""
    problems = study.problems
    across = min(len(problems), MOST_ACROSS)
    down = math.ceil(len(problems) / across)
    figure = new_figure(max(4.4 * across, 6.0), 3.6 * down + 0.4)
    panels = list(figure.subplots(down, across, sharey=sharey, squeeze=False).flat)
    for (problem, method), line in lines.items():
        shade = SHADE if len(study.methods) <= MOST_SHADED else FAINT
        _draw_line(panels[problem], line, study.methods[method], method, shade)
    for axes, name in zip(panels, problems, strict=False):
        axes.set_title(name, fontsize=9, parse_math=False)
        axes.grid(alpha=0.3)
        axes.spines[["top", "right"]].set_visible(False)
    for axes in panels[len(problems) :]:
        axes.set_axis_off()
    _name_methods(figure, panels)
    return figure, panels[: len(problems)]


def _draw_line(axes: Any, line: Line, name: str, place: int, shade: float) -> None:
    means = [math.nan if mean is None else 100 * mean for mean in line.means]
    spread = [100 * (deviation or 0.0) for deviation in line.deviations or [0.0] * len(means)]
    colour, turn = COLOURS[place % len(COLOURS)], place // len(COLOURS)
    axes.plot(
        line.x,
        means,
        label=name,
        color=colour,
        linestyle=LINES[turn % len(LINES)],
        marker=MARKS[place % len(MARKS)] if len(means) <= MOST_NAMED else None,
        linewidth=1.4,
        markersize=3.5,
    )
    below, above = ([m + side * s for m, s in zip(means, spread, strict=True)] for side in (-1, 1))
    low, high = ([min(max(value, 0), 100) for value in edge] for edge in (below, above))
    axes.fill_between(line.x, low, high, color=colour, alpha=shade, linewidth=0)


def _name_methods(figure: Any, panels: Sequence[Any]) -> None:
    """One legend of the methods of all panels."""
    handles = {
        name: line for axes in panels for line, name in zip(*axes.get_legend_handles_labels(), strict=True)
    }
    legend = figure.legend(
        list(handles.values()), list(handles), loc="outside lower center", frameon=False, ncols=3, fontsize=8
    )
    for text in legend.get_texts():
        text.set_parse_math(False)
