"""What a run's parts recorded, in lines: the last values of each of their charts."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from functools import partial
from typing import Any

from counterpoise.results.results import RunResult, by_round

MOST = 40  # entries of one chart that are listed one by one
WIDEST = 12  # classes of a flow that is shown as a table too: its rows fit 120 characters
CORNER = "from | to"


def inside_lines(run: RunResult) -> Iterator[str]:
    """For each chart its last values."""
    for chart in run.record.get("charts", []):
        if known := by_round(run.rows, partial(recorded, chart)):
            yield ""
            yield f"{chart['part']}: {chart['title'].lower()}, after round {known[-1][0]}"
            yield from KINDS[chart["kind"]](known[-1][1], chart, run.record)


def recorded(chart: Mapping[str, Any], row: Mapping[str, Any]) -> Any:
    """The values of a chart in a round's row; None where it has none."""
    return row.get("diagnostics", {}).get(chart["part"], {}).get(chart["name"])


def _curve(value: float, chart: Mapping[str, Any], record: Mapping[str, Any]) -> Iterator[str]:
    yield f"  {value:.4g}"


def _bars(values: Sequence[float], chart: Mapping[str, Any], record: Mapping[str, Any]) -> Iterator[str]:
    for name, value in list(zip(_names(values, chart, record), values, strict=True))[:MOST]:
        yield f"  {name}: {value:.4g}"
    if len(values) > MOST:
        yield f"  ... and {len(values) - MOST} more"
    yield f"  mean: {sum(values) / max(len(values), 1):.4g}"


def _flow(
    rows: Sequence[Sequence[float]], chart: Mapping[str, Any], record: Mapping[str, Any]
) -> Iterator[str]:
    """The largest first."""
    names = _names(rows, chart, record)
    cells = [
        (v, a, b) for a, row in zip(names, rows, strict=True) for b, v in zip(names, row, strict=True) if v
    ]
    for value, before, after in sorted(cells, key=lambda cell: -cell[0])[:MOST]:
        yield f"  {before} -> {after}: {value:.4g}"
    if len(cells) > MOST:
        yield f"  ... and {len(cells) - MOST} more"
    yield f"  sum: {sum(value for value, _, _ in cells):.4g}"
    if len(rows) <= WIDEST:
        yield from _crossed(rows, names)


def _crossed(rows: Sequence[Sequence[float]], names: Sequence[str]) -> Iterator[str]:
    """All entries, from class by row and to class by column, with the sum of each row."""
    titles = [f"{place} {name}"[:20] for place, name in enumerate(names)]
    wide = max(map(len, [CORNER, *titles]))
    yield f"  {CORNER:{wide}}" + "".join(f"{place:>7}" for place in [*range(len(rows)), "sum"])
    for title, row in zip(titles, rows, strict=True):
        yield f"  {title:{wide}}" + "".join(f"{value:>7.6g}" for value in [*row, sum(row)])


def _tree(nodes: Sequence[Any], chart: Mapping[str, Any], record: Mapping[str, Any]) -> Iterator[str]:
    yield f"  {len(nodes)} nodes; the report draws them"


def _names(values: Sequence[Any], chart: Mapping[str, Any], record: Mapping[str, Any]) -> list[str]:
    classes = record["data"]["classes"]
    if chart["axis"] == "classes" and len(classes) == len(values):
        return [str(name) for name in classes]
    kind = {"clients": "client ", "classes": "class "}.get(chart["axis"], "")
    return [f"{kind}{place}" for place in range(len(values))]


KINDS: dict[str, Callable[[Any, Mapping[str, Any], Mapping[str, Any]], Iterator[str]]] = {
    "curve": _curve,
    "bars": _bars,
    "flow": _flow,
    "tree": _tree,
}
