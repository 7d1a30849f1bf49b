"""Runs grouped by sweep, and the best of each problem."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple

if TYPE_CHECKING:
    from counterpoise.results.progress import Progress


class Group(NamedTuple):
    """The runs of a sweep, or those that belong to none."""

    sweep: Path | None
    runs: list[Progress]  # that are listed
    found: list[Progress]  # listed or not

    @property
    def heading(self) -> str:
        done = sum(run.state == "done" for run in self.found)
        name = "single runs" if self.sweep is None else f"sweep {self.sweep}"
        return f"{name}: {done} of {len(self.found) + self._to_come()} done"

    def _to_come(self) -> int:
        if self.sweep is None:
            return 0
        from counterpoise.sweep.standing import standing_of

        standing = standing_of(self.sweep)
        return standing.to_come(self.found).runs if standing else 0


def by_sweep(listed: Sequence[Progress], found: Sequence[Progress]) -> list[Group]:
    """Single runs first, then sweeps by their folders; within a group the order stays."""
    sweeps = sorted({run.sweep for run in listed}, key=lambda one: "" if one is None else str(one))
    return [
        Group(sweep, *([run for run in runs if run.sweep == sweep] for runs in (listed, found)))
        for sweep in sweeps
    ]


def best_runs(runs: Sequence[Progress], score: str) -> list[Progress]:
    """The finished run with the best score of each problem, in each sweep and outside of sweeps; the first of equals."""
    from counterpoise.metrics.catalogue import find

    sign = -1 if find(score).lower else 1
    best: dict[tuple[Path | None, str], tuple[float, Progress]] = {}
    for run in runs:
        value = run.last(score)
        if run.state == "done" and value is not None:
            place = run.sweep, run.problem
            if place not in best or sign * value > best[place][0]:
                best[place] = sign * value, run
    return [run for _, run in best.values()]
