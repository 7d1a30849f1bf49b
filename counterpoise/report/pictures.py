"""The pictures in a run's folder: samples per client and class, and scores over rounds."""

from __future__ import annotations

import itertools
from collections.abc import Callable, Mapping, Sequence
from operator import methodcaller
from pathlib import Path
from typing import Any

import numpy as np

from counterpoise.data.skew import Counts
from counterpoise.metrics.catalogue import TEST_SET, find, shown_in
from counterpoise.report.drawing import COLOURS, new_figure, save
from counterpoise.report.heatmap import draw_heatmap
from counterpoise.results.results import by_round
from counterpoise.run.giving_up import Rows
from counterpoise.run.listener import Listener
from counterpoise.run.store.seal import read_sealed
from counterpoise.run.store.stored import Run

BLACK_FIRST = (COLOURS[-1], *COLOURS[:-1])  # accuracy, which all others are seen against
LOSSES: dict[str, tuple[str, Callable[[Mapping[str, Any]], Any]]] = {
    "training": ("#555555", lambda row: row["loss"]),
    "test": ("#CC79A7", lambda row: row.get("cross_entropy")),
    "validation": ("#56B4E9", lambda row: row.get("validation", {}).get("cross_entropy")),
}


def draw_curves(
    rows: Sequence[Mapping[str, Any]], path: Path, title: str = "", where: str = TEST_SET
) -> None:
    """Write a PNG: accuracy, balanced accuracy and recall of head, medium and tail classes; below, the losses."""
    figure = new_figure(7.5, 5.5)
    scores, loss = figure.subplots(2, 1, sharex=True, height_ratios=[3, 1])
    drawn = shown_in("curve")
    for name, colour in zip(drawn, itertools.cycle(BLACK_FIRST), strict=False):
        known = by_round(rows, methodcaller("get", name))
        if known:
            scores.plot(
                *zip(*known, strict=True),
                color=colour,
                label=find(name).words,
                linewidth=1.6,
                marker="." if len(known) < 20 else None,
            )
    scores.set(ylim=(0, 1), ylabel=f"on {where}", title=title)
    figure.legend(loc="outside lower center", frameon=False, ncols=len(drawn), fontsize=8)
    for name, (colour, read) in LOSSES.items():
        known = by_round(rows, read)
        if known:
            loss.plot(*zip(*known, strict=True), color=colour, label=name, linewidth=1.2)
    loss.set(xlabel="round", ylabel="loss")
    loss.legend(frameon=False, fontsize=7)
    for axes in (scores, loss):
        axes.grid(alpha=0.3)
        axes.spines[["top", "right"]].set_visible(False)
    save(figure, path)


def partition_of(run: Run) -> Counts | None:
    """Samples of each client and class; a method that pools trains one client on all, and the record knows who held them."""
    if run.simulation.method.pools is None:
        counts = run.simulation.work.federation.client_counts()
        return None if counts is None else counts.numpy()
    record = read_sealed(run.folder.record) or {}
    return np.asarray(record["clients"]) if record.get("clients") else None


class Pictures(Listener):
    """Draws the partition when a run begins, and its curves when it has a result."""

    def began(self, run: Run) -> None:
        federation, path = run.simulation.work.federation, run.folder.partition_picture
        counts = None if path.exists() else partition_of(run)
        if counts is not None:
            where = "" if run.simulation.method.pools is None else ", before they were put in one place"
            title = f"{federation.name}: samples of each client and class{where}"
            draw_heatmap(counts, federation.classes, path, title)

    def ended(self, run: Run, rows: Rows) -> None:
        simulation = run.simulation
        title = f"{simulation.method.name} on {simulation.work.federation.name}"
        draw_curves(rows, run.folder.curves_picture, title, simulation.scored_on)
