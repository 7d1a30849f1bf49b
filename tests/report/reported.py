"""Small real runs for tests of the report: methods, seeds, a part with every kind of chart, and runs that went wrong."""

from __future__ import annotations

import json
import shutil
from pathlib import Path

import torch
from runs import reseal

from counterpoise.core.part import Census, Chart, Exchange, Part
from counterpoise.core.tree import Params, Tree
from counterpoise.results.results import FAILURE, RunResult, read_results
from counterpoise.run.config.experiment import make_experiment
from counterpoise.run.runner import start
from counterpoise.run.store.folder import RunFolder
from counterpoise.system.toml import override

EVIL = "<script>alert(1)</script>"
CLIENTS = 4
METHODS = ("fedavg", "fedavgm", '["fedavg", "charted"]')
SEEDS = (0, 1)
TABLES = {
    "rounds": 6,
    "data": {"name": "digits", "imbalance": 10.0},
    "partition": {"clients": CLIENTS, "alpha": 0.5, "validation": 0.2},
    "cohort": {"size": 2},
    "model": {"name": "mlp", "hidden": [8]},
    "local": {"batch_size": 64},
    "evaluate": {"every": 2, "clients": True},
}


def charted() -> Part:
    """``x <- x + delta``, and one chart of each kind."""

    def init(params: Params, census: Census, surveys: Tree) -> Tree:
        parents = torch.tensor([-1.0, 0.0, 0.0, 1.0, 1.0])
        return {
            "rounds": torch.zeros(()),
            "weights": torch.arange(float(census.classes)),
            "flow": torch.eye(census.clients),
            "tree": torch.stack([parents, torch.linspace(-1, 1, 5), torch.arange(5.0)], 1),
        }

    def update(delta: Params, slot: Tree, exchange: Exchange) -> tuple[Params, Tree]:
        return delta, slot | {"rounds": slot["rounds"] + 1, "weights": slot["weights"] + 1}

    charts = (
        Chart("rounds", "curve", "Rounds so far", lambda slot: slot["rounds"]),
        Chart("weights", "bars", "Weights of classes", lambda slot: slot["weights"], "classes"),
        Chart("flow", "flow", "Who hears whom", lambda slot: slot["flow"], "clients"),
        Chart("tree", "tree", "What was tried", lambda slot: slot["tree"], "", ("parent", "gain", "visits")),
    )
    return Part("charted", init=init, update=update, charts=charts)


def make_runs(folder: Path) -> None:
    """Three methods of two seeds, a run that failed and one that was stopped; a class with a name that attacks."""
    for number, method in enumerate(METHODS):
        for seed in SEEDS:
            tables = override(override(TABLES, f"method={method}"), f"seed={seed}")
            start(make_experiment(tables), folder / f"{number}-{seed}")
    for record in folder.glob("*/record.json"):
        written = json.loads(record.read_text())
        written["data"]["classes"][3] = EVIL
        record.write_text(json.dumps(written))
        reseal(record.parent)
    _spoil(folder)


def _spoil(folder: Path) -> None:
    failed, stopped = folder / "9-failed", folder / "9-stopped"
    for path in (failed, stopped):
        shutil.copytree(folder / "0-0", path)
        RunFolder(path).summary.unlink()
    (failed / FAILURE).write_text(json.dumps({"error": f"the disk is full {EVIL}"}))
    metrics = RunFolder(stopped).metrics
    metrics.write_text("".join(metrics.read_text().splitlines(keepends=True)[:3]))


def finished_in(folder: Path) -> list[RunResult]:
    return [result for result in read_results([folder]) if result.summary is not None]
