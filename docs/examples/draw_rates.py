"""A search for rates as pictures: ``python draw_rates.py FOLDER...`` writes rates.png and, of the first run, tree.png.

The rates over rounds are those of paper 000, Figures 7 and 8.
"""

from __future__ import annotations

import sys
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from counterpoise.errors import ConfigError
from counterpoise.report.drawing import COLOURS, MARKS, new_figure, save
from counterpoise.run.store.folder import RunFolder, read_rows

NAMED = 12  # clients up to which each has its name

Rows = Sequence[Mapping[str, Any]]


def draw_rates(runs: Mapping[str, Rows], path: Path) -> None:
    """Write a PNG: one panel per run, by title, with the rate of each client in the model that each round kept."""
    figure = new_figure(4.2 * len(runs) + 0.4, 3.4)
    panels = figure.subplots(1, len(runs), sharey=True, squeeze=False)[0]
    for axes, (title, rows) in zip(panels, runs.items(), strict=True):
        _draw_lines(axes, rows)
        axes.set_title(title, fontsize=9, parse_math=False)
        axes.set(xlabel="round")
        axes.xaxis.get_major_locator().set_params(integer=True)  # there is no round 7.5
    panels[0].set(ylabel="sampling rate")
    lines, names = max((axes.get_legend_handles_labels() for axes in panels), key=lambda named: len(named[0]))
    if len(lines) <= NAMED:
        figure.legend(lines, names, loc="outside right upper", frameon=False, fontsize=8)
    save(figure, path)


def draw_tree(rows: Rows, path: Path, title: str = "") -> None:
    """Write a PNG of the tree after the last round: depth downwards, area by visits, colour by reward.

    Only the best few children of each node are recorded, so only these are drawn.
    """
    found = searched(rows)[-1][1]["tree"]
    parent, depth, visits, reward = ([node[column] for node in found] for column in range(4))
    parent = [int(row) for row in parent]
    across = spread(parent)
    figure = new_figure(7.5, 4.2)
    axes = figure.subplots()
    for node, above in enumerate(parent):
        if above >= 0:
            axes.plot(
                [across[node], across[above]], [depth[node], depth[above]], color="#bbbbbb", lw=0.7, zorder=1
            )
    sizes = [12 + 160 * count / max(max(visits), 1) for count in visits]
    dots = axes.scatter(
        across, depth, sizes, reward, cmap="viridis", edgecolors="#444444", linewidths=0.4, zorder=2
    )
    figure.colorbar(dots, label="mean reward")
    axes.set(xticks=[], yticks=range(int(max(depth)) + 1), ylabel="depth (width of a box halves with each)")
    axes.set_title(title, fontsize=10, parse_math=False)
    axes.invert_yaxis()
    axes.spines[["top", "right", "bottom"]].set_visible(False)
    save(figure, path)


def searched(rows: Rows) -> list[tuple[int, Mapping[str, Any]]]:
    """Round, counted from 1, and what its search recorded, of each row that has it."""
    kept = [
        (int(row["round"]) + 1, chart)
        for row in rows
        for chart in row.get("diagnostics", {}).values()
        if "rates" in chart and "tree" in chart
    ]
    if not kept:
        raise ConfigError("this run searched no rates: it must be a run of fedhoo or hoo")
    return kept


def spread(parent: Sequence[int]) -> list[float]:
    """Horizontal place of each node: leaves next to each other, a parent in the middle of its children."""
    children: dict[int, list[int]] = {}
    for node, above in enumerate(parent):
        children.setdefault(above, []).append(node)
    across, placed = [0.0] * len(parent), 0

    def place(node: int) -> None:
        nonlocal placed
        below = children.get(node, [])
        for child in below:
            place(child)
        across[node] = sum(across[child] for child in below) / len(below) if below else float(placed)
        placed += not below

    place(0)
    return across


def _draw_lines(axes: Any, rows: Rows) -> None:
    kept = searched(rows)
    rounds = [number for number, _ in kept]
    lines = list(zip(*(chart["rates"] for _, chart in kept), strict=True))
    for client, rates in enumerate(lines):
        axes.plot(
            rounds,
            rates,
            color=COLOURS[client % len(COLOURS)],
            marker=MARKS[client // len(COLOURS) % len(MARKS)],
            markersize=3 if len(rounds) <= 60 else 0,
            linewidth=3.2
            - 2.2 * client / len(lines),  # a later line leaves the edges of one below it to be seen
            drawstyle="steps-mid",
            label=f"client {client}",
        )
    axes.grid(alpha=0.3)
    axes.spines[["top", "right"]].set_visible(False)


def main(folders: Sequence[str]) -> None:
    runs = {Path(folder).name: read_rows(RunFolder(Path(folder)).metrics) for folder in folders}
    draw_rates(runs, Path("rates.png"))
    draw_tree(next(iter(runs.values())), Path("tree.png"))


if __name__ == "__main__":
    if len(sys.argv) < 2:
        sys.exit("usage: python draw_rates.py FOLDER... (folders of runs of fedhoo or hoo)")
    main(sys.argv[1:])
