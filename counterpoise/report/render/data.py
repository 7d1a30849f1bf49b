"""A comparison for programs: CSV with one row per method and problem, and JSON with everything."""

from __future__ import annotations

import csv
import io
import json
from typing import Any

from counterpoise.results.comparison import Cell, Comparison, Row, Verdict

VERDICT = (
    "baseline",
    "pairs",
    "difference",
    "interval_low",
    "interval_high",
    "p",
    "adjusted",
    "rank_biserial",
    "cohen_dz",
    "verdict",
)


def render_csv(comparison: Comparison) -> str:
    """Mean, deviation and number of seeds of each column, then the verdict; numbers unrounded, empty where unknown."""
    columns = list(comparison.rows[0].cells) if comparison.rows else []
    verdicts = {(verdict.problem, verdict.method): verdict for verdict in comparison.verdicts}
    head = [f"{column}{part}" for column in columns for part in ("", "_deviation", "_seeds")]
    text = io.StringIO()
    lines = csv.writer(text, lineterminator="\n")
    lines.writerow(["problem", "method", "seeds", *head, *VERDICT])
    for row in comparison.rows:
        cells = [value for column in columns for value in _of_cell(row.cells[column])]
        verdict = _of_verdict(verdicts.get((row.problem, row.method)))
        lines.writerow([row.problem, row.method, " ".join(map(str, row.seeds)), *cells, *verdict])
    return text.getvalue()


def render_json(comparison: Comparison) -> str:
    """Everything, values by seed included."""
    content = comparison._asdict() | {
        "rows": [_row(row) for row in comparison.rows],
        "verdicts": [verdict._asdict() for verdict in comparison.verdicts],
        "ranking": comparison.ranking._asdict() if comparison.ranking else None,
        "recommendations": [
            one._asdict() | {"paragraph": one.paragraph} for one in comparison.recommendations
        ],
        "failures": [{"path": str(path), "error": line} for path, line in comparison.failures],
    }
    return json.dumps(content, indent=2, allow_nan=False, ensure_ascii=False) + "\n"


def _row(row: Row) -> dict[str, Any]:
    cells = {
        column: {"mean": cell.mean, "deviation": cell.deviation, "values": cell.values}
        for column, cell in row.cells.items()
    }
    return row._asdict() | {"cells": cells}


def _of_cell(cell: Cell) -> tuple[float | None, float | None, int]:
    return cell.mean, cell.deviation, len(cell.known)


def _of_verdict(verdict: Verdict | None) -> list[Any]:
    if verdict is None:
        return [None] * len(VERDICT)
    low, high = verdict.interval or (None, None)
    known = verdict._asdict() | verdict.effect | {"interval_low": low, "interval_high": high}
    return [known[name] for name in VERDICT]
