"""Runs in the order of the report, and how numbers are thinned and rounded."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, NamedTuple, TypeVar

from counterpoise.errors import CounterpoiseError
from counterpoise.metrics.catalogue import TEST_SET, scored_on
from counterpoise.report.html.markup import Html
from counterpoise.results.cells import Cell
from counterpoise.results.comparison import Comparison, compare_results
from counterpoise.results.labels import Labels, group_runs, label_runs
from counterpoise.results.results import Readings, RunResult

Item = TypeVar("Item")
Numbers = list[float | None]


class Section(NamedTuple):
    """A section of the page: its key, its heading and its body."""

    key: str
    name: str
    body: Html


class Study(NamedTuple):
    """The runs of a report and their comparison; groups: finished runs per problem and method, by seed."""

    results: Sequence[RunResult]
    comparison: Comparison
    groups: dict[Labels, list[RunResult]]
    labels: Mapping[Path, Labels]  # of all runs
    left_out: Mapping[Path, CounterpoiseError]  # runs that cannot be read
    opening: Sequence[str] = ()  # paragraphs to open with; by default those of the comparison
    scored_on: str = TEST_SET
    sections: Sequence[Section] = ()  # before all others

    @property
    def problems(self) -> list[str]:
        return list(dict.fromkeys(problem for problem, _ in self.groups))

    @property
    def methods(self) -> list[str]:
        return list(dict.fromkeys(method for _, method in self.groups))

    def place(self, problem: str, method: str) -> tuple[int, int]:
        return self.problems.index(problem), self.methods.index(method)

    def runs_on(self, problem: str) -> list[RunResult]:
        return [run for (where, _), runs in self.groups.items() if where == problem for run in runs]


def study(
    found: Readings | Sequence[RunResult], labels: Mapping[Path, Labels] | None = None, **options: Any
) -> Study:
    """The comparison, with the options of `compare_results`, and its runs."""
    results, left_out = found if isinstance(found, Readings) else (found, {})
    comparison = compare_results(results, labels=labels, left_out=left_out, **options)
    finished = [result for result in results if result.has_result]
    known = group_runs(finished, labels)
    rows = [Labels(row.problem, row.method) for row in comparison.rows]
    groups = {pair: [known[pair][seed] for seed in sorted(known[pair])] for pair in rows}
    named = dict(zip((result.path for result in results), label_runs(results), strict=True))
    places = dict.fromkeys(scored_on(run.summary) for run in results if run.summary)
    where = " or ".join(places) or TEST_SET
    return Study(results, comparison, groups, named | dict(labels or {}), left_out, scored_on=where)


def thin(items: Sequence[Item], most: int) -> list[Item]:
    """At most this many items at even distances, with the first and the last."""
    if len(items) <= most:
        return list(items)
    step = (len(items) - 1) / max(most - 1, 1)
    return [items[len(items) - 1 - round(place * step)] for place in reversed(range(most))]


def short(value: float | None) -> float | None:
    """Rounded to five digits, enough for a screen."""
    return None if value is None else float(f"{value:.5g}")


def mean_and_deviation(columns: Sequence[Sequence[float | None]]) -> tuple[Numbers, Numbers | None]:
    """Over runs, entry by entry; no deviations with one run."""
    cells = [Cell(tuple(values)) for values in zip(*columns, strict=True)]
    means = [short(cell.mean) for cell in cells]
    return means, [short(cell.deviation) for cell in cells] if len(columns) > 1 else None
