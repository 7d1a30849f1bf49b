"""Runs as a table: one row per experiment, mean and deviation over seeds."""

from __future__ import annotations

import statistics
from collections.abc import Hashable, Mapping, Sequence
from typing import Any, NamedTuple, TypeAlias

from counterpoise.errors import ConfigError, short
from counterpoise.metrics.catalogue import find, shown_in, worth_showing
from counterpoise.results.labels import label_runs

Run: TypeAlias = Mapping[str, Any]  # an outcome of `simulate`, of `load_run`, or a summary


class Listed(NamedTuple):
    """A run with its config; of a summary alone only the method's name is known."""

    summary: Run
    config: dict[str, Any]
    source: str

    @property
    def seed(self) -> int:
        return int(self.summary.get("seed", 0))

    @property
    def end(self) -> Hashable:
        """By what a run that is given twice is recognised."""
        return self.summary.get("params_sha256"), *(self.summary.get(key) for key in shown_in("runs"))


def group_by_experiment(runs: Sequence[Run]) -> dict[str, list[Run]]:
    """The runs of each experiment, one per seed, in order of first appearance; the label says what differs."""
    groups: dict[str, list[dict[int, Listed]]] = {}
    listed = [_listed(run) for run in runs]
    for label, run in zip(_labels(listed), listed, strict=True):
        _place(run, groups.setdefault(label, []))
    return {
        label if number == 1 else f"{label} ({number})": [run.summary for run in seeds.values()]
        for label, rows in groups.items()
        for number, seeds in enumerate(rows, 1)
    }


def _place(run: Listed, rows: list[dict[int, Listed]]) -> None:
    """Put a run into the first row without its seed: one seed with two ends is two experiments, whatever differs."""
    if any(run.seed in seeds and seeds[run.seed].end == run.end for seeds in rows):
        return
    if all(run.seed in seeds for seeds in rows):
        rows.append({})
    next(seeds for seeds in rows if run.seed not in seeds)[run.seed] = run


def _listed(run: Run) -> Listed:
    if hasattr(run, "config"):
        return Listed(run, run.config, "simulate")
    if hasattr(run, "result"):
        return Listed(run, run.result.config, "a folder")
    return Listed(run, {"method": run["method"]}, "a summary")


def _labels(runs: Sequence[Listed]) -> list[str]:
    """Method and problem; configs from different sources have other keys, so they are not compared with each other."""
    found = [""] * len(runs)
    sources = {run.source for run in runs}
    for source in sources:
        places = [place for place, run in enumerate(runs) if run.source == source]
        words = f"from {source}" if len(sources) > 1 else ""
        for place, label in zip(places, label_runs([runs[place] for place in places]), strict=True):
            found[place] = ", ".join(filter(None, (label.method, label.problem, words)))
    return found


def spread(values: Sequence[float | None]) -> str:
    """``mean ± sample deviation`` in percent; a single value without deviation, no value as n/a."""
    known = [100 * value for value in values if value is not None]
    if not known:
        return "n/a"
    mean = f"{statistics.fmean(known):.1f}"
    return f"{mean} ± {statistics.stdev(known):.1f}" if len(known) > 1 else mean


def rows_of(runs: Sequence[Run]) -> list[list[str]]:
    """Method, seeds, one cell per score, seconds per run."""
    return [
        [
            label,
            str(len(seeds)),
            *(spread([run.get(key) for run in seeds]) for key in _columns(runs)),
            f"{statistics.fmean(run['seconds'] for run in seeds):.1f}",
        ]
        for label, seeds in group_by_experiment(runs).items()
    ]


def header(runs: Sequence[Run]) -> list[str]:
    return ["method", "seeds", *(f"{find(name).short} %" for name in _columns(runs)), "seconds"]


def _columns(runs: Sequence[Run]) -> tuple[str, ...]:
    return worth_showing(shown_in("runs"), lambda key: any(run.get(key) is not None for run in runs))


def table(runs: Sequence[Run]) -> str:
    """Runs as a table in Markdown: one row per method with what tells it apart, mean and deviation over seeds."""
    if not isinstance(runs, Sequence) or not runs or not all(hasattr(run, "get") for run in runs):
        raise ConfigError(
            f"table: runs must be a list of outcomes of simulate and load_run, not {short(runs)}"
        )
    lines = [header(runs), *rows_of(runs)]
    widths = [max(len(line[column]) for line in lines) for column in range(len(lines[0]))]
    text = [" | ".join(cell.ljust(width) for cell, width in zip(line, widths, strict=True)) for line in lines]
    rule = " | ".join("-" * width for width in widths)
    return "\n".join(f"| {line} |" for line in [text[0], rule, *text[1:]])
