"""What a run leaves to be cited: versions, machine, and the summary of its rows."""

from __future__ import annotations

import importlib.metadata
import os
import platform
from collections.abc import Mapping, Sequence
from typing import Any

import torch

from counterpoise.metrics.catalogue import find, headline
from counterpoise.registry.plugins import plugin_versions
from counterpoise.server.round import Outcome
from counterpoise.version import __version__

PACKAGES = ("torch", "numpy", "scipy", "scikit-learn", "safetensors")
LAST = 10


def versions() -> dict[str, str]:
    """What must be the same for a run to be repeated bit by bit."""
    known = {name: importlib.metadata.version(name) for name in PACKAGES}
    return {"counterpoise": __version__, "python": platform.python_version(), **known, **plugin_versions()}


def machine() -> dict[str, Any]:
    gpu = torch.cuda.get_device_name() if torch.cuda.is_available() else None
    return {
        "system": platform.platform(),
        "cores": os.cpu_count(),
        "threads": torch.get_num_threads(),
        "cpu": _cpu(),
        "gpu": gpu,
    }


def summarise_rows(rows: Sequence[Mapping[str, Any]]) -> dict[str, Any]:
    """Last, best and mean of the last ten evaluations of each score, and what went wrong on the way."""
    scored = [row for row in rows if "accuracy" in row]
    last = {
        key: value
        for key, value in scored[-1].items()
        if key not in (*Outcome._fields, "skipped", "diagnostics")
    }
    return {
        **last,
        "best": {key: best_of(scored, key) for key in headline()},
        "mean_last_10": {key: _mean([row.get(key) for row in scored[-LAST:]]) for key in headline()},
        "rejected_replies": sum(len(row["rejected"]) for row in rows),
        "clipped_replies": sum(len(row.get("clipped", ())) for row in rows),
        "skipped_rounds": sum(row["skipped"] for row in rows),
        "bytes": sum(row["bytes_down"] + row["bytes_up"] for row in rows),
    }


def best_of(rows: Sequence[Mapping[str, Any]], key: str) -> float | None:
    """The best value of a score over rows."""
    known = [row[key] for row in rows if row.get(key) is not None]
    return (min if find(key).lower else max)(known, default=None)


def _mean(values: Sequence[float | None]) -> float | None:
    known = [value for value in values if value is not None]
    return sum(known) / len(known) if known else None


def _cpu() -> str:
    try:
        with open("/proc/cpuinfo") as lines:
            return next(
                (line.split(":", 1)[1].strip() for line in lines if line.startswith("model name")),
                platform.processor(),
            )
    except OSError:
        return platform.processor()
