"""The charts that parts recorded, as numbers for the page's script."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any, NamedTuple

from counterpoise.report.html.curves import curve, points_for
from counterpoise.report.html.study import Study, short, thin
from counterpoise.results.inside import recorded
from counterpoise.results.results import RunResult, by_round

BUDGET = 300_000  # numbers of all charts but curves together: about two megabytes
MOST_FRAMES = 40  # rounds of one chart


class Drawn(NamedTuple):
    """One chart of one part, and the runs that recorded it."""

    problem: int
    method: int
    chart: dict[str, Any]
    runs: Sequence[RunResult]

    def read(self, row: Any) -> Any:
        return recorded(self.chart, row)


def diagnostic_data(study: Study) -> list[dict[str, Any]]:
    """Curves of one name share a picture, over seeds; other charts are shown for each method's first seed."""
    drawn = [
        Drawn(*study.place(*key), chart, runs)
        for key, runs in study.groups.items()
        for chart in runs[0].record["charts"]
    ]
    others = [one for one in drawn if one.chart["kind"] != "curve"]
    numbers = BUDGET // max(len(others), 1)
    return [*_curves(drawn), *(_frames(one, numbers) for one in others)]


def _curves(drawn: Sequence[Drawn]) -> list[dict[str, Any]]:
    curves = [one for one in drawn if one.chart["kind"] == "curve"]
    pictures: dict[tuple[Any, ...], dict[str, Any]] = {}
    for one in curves:
        found = curve(one.runs, one.read, points_for(2 * len(curves)))
        key = one.problem, one.chart["part"], one.chart["name"]
        picture = pictures.setdefault(key, {**one.chart, "problem": one.problem, "series": []})
        if found is not None:
            picture["series"].append({"method": one.method, "curve": found})
    return list(pictures.values())


def _frames(one: Drawn, numbers: int) -> dict[str, Any]:
    """The chart over the rounds of one run, reduced to at most this many numbers."""
    run = one.runs[0]
    known = by_round(run.rows, one.read)
    size = _size(_cut(one.chart["kind"], known[-1][1], numbers)) if known else 1
    kept = thin(known, max(1, min(MOST_FRAMES, numbers // max(size, 1))))
    return {
        **one.chart,
        "problem": one.problem,
        "method": one.method,
        "seed": run.seed,
        "names": run.record["layers"] if one.chart["axis"] == "layers" else [],
        "frames": [(when, _cut(one.chart["kind"], value, numbers)) for when, value in kept],
        "of": [len(known), max((len(value) for _, value in known), default=0)],
    }


def _cut(kind: str, value: list[Any], numbers: int) -> list[Any]:
    """The first entries that fit; of a flow as many rows as columns."""
    if kind == "bars":
        return [short(number) for number in value[:numbers]]
    width = math.isqrt(numbers) if kind == "flow" else None
    rows = width if width is not None else max(1, numbers // max(len(value[0]) if value else 1, 1))
    return [[short(number) for number in row[:width]] for row in value[:rows]]


def _size(value: list[Any]) -> int:
    return sum(len(row) if isinstance(row, list) else 1 for row in value)
