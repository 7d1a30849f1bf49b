"""Tiny sweeps on the digits, for tests of everything from the file to the table."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

from runs import TINY

from counterpoise.sweep.run import Execution, Finished, run_sweep
from counterpoise.sweep.specs import merge
from counterpoise.sweep.sweep import Sweep, make_sweep
from counterpoise.system.toml import write_toml

BASE = {key: value for key, value in TINY.items() if key != "method"}
METHODS: list[Any] = ["fedavg", ["fedavg", "balanced_softmax"]]


def tiny_tables(**keys: Any) -> dict[str, Any]:
    """The tables of a sweep of two methods and two seeds over two rounds, with some of them changed."""
    tables = {"methods": METHODS, "seeds": 2, "base": BASE | {"rounds": 2}}
    return merge(tables, keys)


def tiny_sweep(**keys: Any) -> Sweep:
    return make_sweep(tiny_tables(**keys))


def write_tiny_sweep(folder: Path, **keys: Any) -> Path:
    path = folder / "tiny.toml"
    path.write_text(write_toml(tiny_tables(**keys)))
    return path


def run_here(sweep: Sweep, out: Path) -> Finished:
    return run_sweep(sweep, out, Execution())


def table_of(out: Path) -> dict[str, Any]:
    """The table of a sweep without what the clock says."""
    table = json.loads((out / "table.json").read_text())
    for row in table["rows"]:
        row["cells"] = {key: cell for key, cell in row["cells"].items() if "seconds" not in key}
    for one in table["recommendations"]:
        del one["seconds"], one["paragraph"]
    table.pop("failures")
    return dict(table)


def ends_of(out: Path) -> dict[str, str]:
    """What each finished run came to."""
    summaries = {path.parent.name: json.loads(path.read_text()) for path in out.glob("runs/*/summary.json")}
    return {name: summary["state_sha256"] for name, summary in summaries.items()}
