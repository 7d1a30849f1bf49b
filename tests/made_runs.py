"""Results of runs that never ran, with scores as a test wants them."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from counterpoise.metrics.catalogue import headline
from counterpoise.results.results import RunResult
from counterpoise.run.config.experiment import make_experiment

DOWN, UP = 600, 400  # bytes of every round
SECONDS = 0.5
CLASSES = [str(digit) for digit in range(10)]
RECORD: dict[str, Any] = {  # what every run has: here the server asked nobody for class counts
    "data": {"name": "digits", "classes": CLASSES, "class_counts": None},
    "samples": [],
    "clients": None,
    "charts": [],
}


def made_run(
    method: Any = "fedavg",
    seed: int = 0,
    scores: Sequence[float] | float = 0.5,
    *,
    every: int = 1,
    finished: bool = True,
    failure: str | None = None,
    calibration: Sequence[float] | None = None,
    folder: str | None = None,
    **tables: Any,
) -> RunResult:
    """A run whose every score is the given one at each evaluation; all others of the config are plain."""
    given = list(scores) if isinstance(scores, Sequence) else [scores]
    rows = [_row(number, every, given, calibration) for number in range(every * len(given))]
    config: dict[str, Any] = {
        "seed": seed,
        "rounds": len(rows),
        "method": method,
        "data": {"name": "digits", "imbalance": 20.0},
        "partition": {"name": "dirichlet", "clients": 20, "alpha": 0.3},
        "evaluate": {"every": every, "clients": False},
        "engine": {"name": "loop"},
    }
    path = Path("runs") / (folder or f"{method}-{tables}-{seed}")
    summary = {"seed": seed} if finished else None
    whole = make_experiment(config | tables).tables()  # as it is read from a folder
    return RunResult(path, whole, RECORD, rows, [SECONDS] * len(rows), summary, failure)


def _row(
    round: int, every: int, scores: Sequence[float], calibration: Sequence[float] | None
) -> dict[str, Any]:
    asked = {"asked": 20, "tasks": 20, "replied": 20, "rejected": [], "skipped": False}
    row: dict[str, Any] = {
        "round": round,
        "lr": 0.1,
        "loss": 1.0,
        "bytes_down": DOWN,
        "bytes_up": UP,
        **asked,
    }
    if (round + 1) % every:
        return row
    place = round // every
    known = dict.fromkeys(headline(), scores[place]) | {"supported_classes": 10, "worst_class": "6"}
    return row | known | ({"calibration_error": calibration[place]} if calibration else {})


def paired_runs(methods: Mapping[str, Sequence[float]], **tables: Any) -> list[RunResult]:
    """One run a method and seed, with that final score."""
    return [
        made_run(method, seed, score, **tables)
        for method, scores in methods.items()
        for seed, score in enumerate(scores)
    ]
