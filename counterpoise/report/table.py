"""Summaries of runs as a table: one row per method, mean and deviation over seeds."""

from __future__ import annotations

import statistics
from collections.abc import Mapping, Sequence
from typing import Any

from counterpoise.metrics.catalogue import find, shown_in, without_empty_groups


def group_by_method(summaries: Sequence[Mapping[str, Any]]) -> dict[str, list[Mapping[str, Any]]]:
    """Summaries of each method, in order of first appearance."""
    groups: dict[str, list[Mapping[str, Any]]] = {}
    for summary in summaries:
        groups.setdefault(summary["method"], []).append(summary)
    return groups


def spread(values: Sequence[float | None]) -> str:
    """``mean ± sample deviation`` in percent; a single value without deviation, no value as n/a."""
    known = [100 * value for value in values if value is not None]
    if not known:
        return "n/a"
    mean = f"{statistics.fmean(known):.1f}"
    return f"{mean} ± {statistics.stdev(known):.1f}" if len(known) > 1 else mean


def rows_of(summaries: Sequence[Mapping[str, Any]]) -> list[list[str]]:
    """Method, seeds, one cell per score, seconds per run."""
    return [
        [
            method,
            str(len(runs)),
            *(spread([run.get(key) for run in runs]) for key in _columns(summaries)),
            f"{statistics.fmean(run['seconds'] for run in runs):.1f}",
        ]
        for method, runs in group_by_method(summaries).items()
    ]


def header(summaries: Sequence[Mapping[str, Any]]) -> list[str]:
    return ["method", "seeds", *(f"{find(name).short} %" for name in _columns(summaries)), "seconds"]


def _columns(summaries: Sequence[Mapping[str, Any]]) -> tuple[str, ...]:
    return without_empty_groups(
        shown_in("runs"), lambda key: any(run.get(key) is not None for run in summaries)
    )


def table(summaries: Sequence[Mapping[str, Any]]) -> str:
    """The table as Markdown."""
    lines = [header(summaries), *rows_of(summaries)]
    widths = [max(len(line[column]) for line in lines) for column in range(len(lines[0]))]
    text = [" | ".join(cell.ljust(width) for cell, width in zip(line, widths, strict=True)) for line in lines]
    rule = " | ".join("-" * width for width in widths)
    return "\n".join(f"| {line} |" for line in [text[0], rule, *text[1:]])
