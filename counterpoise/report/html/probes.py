"""What probes saw of the models, as numbers for the page's script."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

from counterpoise.report.html.curves import Read, curve, points_for
from counterpoise.report.html.study import Study
from counterpoise.results.results import RunResult

COMPARED = "mean"  # the number of a probe that one picture shows for all methods


class Seen(NamedTuple):
    """One probe, and the runs of one method that had it."""

    problem: int
    method: int
    probe: dict[str, Any]
    runs: Sequence[RunResult]

    def reader(self, number: str) -> Read:
        return lambda row: row.get("probes", {}).get(self.probe["name"], {}).get(number)


def probe_data(study: Study) -> list[dict[str, Any]]:
    """For each probe one picture that compares methods, and one per method with a line for each of its numbers."""
    seen = [
        Seen(*study.place(*key), probe, having)
        for key, runs in study.groups.items()
        for probe, having in _probes(runs)
    ]
    points = points_for(2 * sum(len(one.probe["numbers"]) + 1 for one in seen))
    return [*_compared(seen, points), *(_lines(one, points) for one in seen)]


def _probes(runs: Sequence[RunResult]) -> list[tuple[dict[str, Any], list[RunResult]]]:
    """Each probe as the first of these runs has it, and the runs that have it: some seeds may be without."""
    found: dict[str, tuple[dict[str, Any], list[RunResult]]] = {}
    for run in runs:
        for probe in run.record.get("probes", []):
            found.setdefault(probe["name"], (probe, []))[1].append(run)
    return list(found.values())


def _compared(seen: Sequence[Seen], points: int) -> list[dict[str, Any]]:
    pictures: dict[tuple[int, str], dict[str, Any]] = {}
    for one in seen:
        found = curve(one.runs, one.reader(COMPARED), points)
        if found is not None:
            about = {**_about(one.probe, "curve", f", {COMPARED}"), "problem": one.problem, "series": []}
            picture = pictures.setdefault((one.problem, one.probe["name"]), about)
            picture["series"].append({"method": one.method, "curve": found})
    return list(pictures.values())


def _lines(one: Seen, points: int) -> dict[str, Any]:
    drawn = {name: curve(one.runs, one.reader(name), points) for name in one.probe["numbers"]}
    lines = [{"name": name, "curve": found} for name, found in drawn.items() if found is not None]
    return {**_about(one.probe, "lines"), "problem": one.problem, "method": one.method, "lines": lines}


def _about(probe: Mapping[str, Any], kind: str, further: str = "") -> dict[str, Any]:
    return {"part": probe["name"], "kind": kind, "title": probe["title"] + further}
