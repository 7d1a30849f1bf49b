"""The product in a few minutes: methods side by side on long-tailed digits."""

from __future__ import annotations

import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from rich.console import Console
from rich.progress import BarColumn, Progress, TextColumn, TimeRemainingColumn

from counterpoise.core.method import build_method
from counterpoise.experiment.atomic import write_atomically
from counterpoise.experiment.config import Experiment, make_experiment
from counterpoise.experiment.folder import RunFolder
from counterpoise.experiment.runner import resume, start
from counterpoise.report.comparison import draw_comparison
from counterpoise.report.table import table

METHODS: list[Any] = [
    "fedavg",
    "fedprox",
    "fedavgm",
    "scaffold",
    "feddyn",
    "fedcm",
    ["fedavg", "focal"],
    ["fedavg", "weighted_ce"],
    ["fedavg", "balanced_softmax"],
    ["fedavgm", "balanced_softmax"],
]

SETTING: dict[str, Any] = {
    "data": {"name": "digits", "imbalance": 20.0},
    "partition": {"name": "dirichlet", "clients": 20, "alpha": 0.3},
    "cohort": {"size": 8},
    "local": {"lr": 0.1, "epochs": 2, "batch_size": 16},
    "evaluate": {"every": 5},
    "checkpoint": {"every": 10},
}


def run_demo(out: Path, seeds: int, rounds: int) -> str:
    """Run what is not there yet; returns the table and where the picture is."""
    experiments = [
        make_experiment({**SETTING, "method": method, "seed": seed, "rounds": rounds})
        for method in METHODS
        for seed in range(seeds)
    ]
    console = Console(stderr=True)
    columns = (
        TextColumn("{task.fields[name]:<26}"),
        BarColumn(),
        TextColumn("run {task.completed:.0f}/{task.total:.0f}"),
        TimeRemainingColumn(),
    )
    summaries = []
    with Progress(*columns, console=console, disable=not console.is_terminal) as progress:
        task = progress.add_task("demo", total=len(experiments), name="")
        for experiment in experiments:
            progress.update(task, name=build_method(experiment.method).name)
            summaries.append(_run_once(experiment, out))
            progress.advance(task)
    text = table(summaries)
    write_atomically(out / "table.md", f"{text}\n".encode())
    draw_comparison(
        summaries, out / "comparison.png", "Long-tailed digits: recall of head, medium and tail classes"
    )
    return f"{_headline(experiments[0], seeds)}\n\n{text}\n\npicture: {out / 'comparison.png'}\nruns:    {out / 'runs'}"


def _run_once(experiment: Experiment, out: Path) -> Mapping[str, Any]:
    """The summary of a run: read where it is done, continued where it was stopped, else made."""
    folder = RunFolder(
        out
        / "runs"
        / f"{build_method(experiment.method).name}-seed{experiment.seed}-rounds{experiment.rounds}"
    )
    if folder.summary.exists():
        known: Mapping[str, Any] = json.loads(folder.summary.read_text())
        return known
    return resume(folder.path) if folder.config.exists() else start(experiment, folder.path)


def _headline(experiment: Experiment, seeds: int) -> str:
    partition = experiment.partition
    return (
        f"Digits with a long tail of {experiment.data.imbalance:g} to 1, {partition.clients} clients by Dirichlet({partition.arguments['alpha']}), "
        f"{experiment.cohort.size} a round, {experiment.rounds} rounds, {seeds} seeds: last round on the balanced test set."
    )
