"""Which composition is ahead on validation samples of four different problems? The table of docs/methods/counterpoise.md.

    COUNTERPOISE_DATA=~/data python benchmarks/recipe.py --out recipe-out [--seeds 0 1 2] [--problems adult lsmc2]

All at one rate, plain SGD, and a fifth of the training samples held out of all clients: on these they are scored, never on the test set.
The same command goes on after any stop.
"""

from __future__ import annotations

import argparse
import json
import re
import statistics
from pathlib import Path
from typing import Any

import torch

from counterpoise.sweep.execute import run_one
from counterpoise.sweep.orders import Order

UNIFORM: dict[str, Any] = {"fedavg": {"weighting": "uniform"}}
MOMENTUM: dict[str, Any] = {"fedavgm": {"beta": 0.9, "server_lr": 0.3, "weighting": "uniform"}}
GLOBAL: dict[str, Any] = {"balanced_softmax": {"counts": "global"}}
OWN = "balanced_softmax"
RESAMPLED: dict[str, Any] = {"resample": {"rate": 0.6}}
METHODS: dict[str, list[Any]] = {
    "FedAvg": ["fedavg"],
    "FedAvg + resampling": ["fedavg", RESAMPLED],
    "FedAvg + logit adjustment": ["fedavg", "logit_adjustment"],
    "FedAvg + balanced softmax, global counts": ["fedavg", GLOBAL],
    "FedAvg, uniform + balanced softmax, own counts": [UNIFORM, OWN],
    "FedAvgM, uniform + balanced softmax, own counts": [MOMENTUM, OWN],
    "FedRS": ["fedrs"],
    "RedGrape": ["redgrape"],
    "BalanceFL": ["balancefl"],
    "FedBal": ["fedbal"],
    "FedCGNM + resampling": ["fedcgnm", RESAMPLED],
    "FedCM": ["fedcm"],
    "FedCM + balanced softmax, global counts": ["fedcm", GLOBAL],
    "FedCM + balanced softmax, own counts": ["fedcm", OWN],
    "FedWCM": ["fedwcm"],
    "FedWCM + balanced softmax, global counts": ["fedwcm", GLOBAL],
    "FedDyn": ["feddyn"],
    "FedDyn + balanced softmax, own counts": ["feddyn", OWN],
    "SCAFFOLD": ["scaffold"],
    "SCAFFOLD + balanced softmax, own counts": ["scaffold", OWN],
    "drift correction": [UNIFORM, "drift_correction"],
    "drift correction + balanced softmax, global counts": [UNIFORM, "drift_correction", GLOBAL],
    "drift correction + resampling": [UNIFORM, "drift_correction", RESAMPLED],
    "drift correction + BalanceFL": ["balancefl", "drift_correction"],
    "drift correction + balanced softmax, own counts": [UNIFORM, "drift_correction", OWN],
}
STEP = {"step": {"factor": 20.0, "share": 0.3, "ids": "climb"}}


def problem(
    data: dict[str, Any],
    partition: dict[str, Any],
    asked: int,
    model: dict[str, Any],
    rounds: int,
    batch: int,
) -> dict[str, Any]:
    return {
        "rounds": rounds, "data": {"validation": 0.2} | data, "partition": partition, "cohort": {"size": asked},
        "model": model, "local": {"lr": 0.05, "batch_size": batch}, "evaluate": {"every": 20}, "engine": {"processes": 1},
    }  # fmt: skip


SMALL = {"name": "mlp", "hidden": [100]}
PROBLEMS = {
    "adult": problem(
        {"name": "adult"}, {"name": "dirichlet", "alpha": 0.3, "clients": 50}, 5, {"name": "mlp", "hidden": [64]}, 30, 64
    ),
    "lt100": problem(
        {"name": "fashion_mnist", "imbalance": 100.0}, {"name": "dirichlet_equal", "alpha": 0.1, "clients": 50}, 5, SMALL, 60, 32
    ),
    "step20": problem(
        {"name": "fashion_mnist", "imbalance": STEP}, {"name": "dirichlet", "alpha": 0.3, "clients": 100}, 10, SMALL, 60, 32
    ),
    "lsmc2": problem(
        {"name": "mnist"}, {"name": "missing_classes", "held": 2, "clients": 100}, 10, {"name": "mlp_004"}, 60, 32
    ),
}  # fmt: skip


def score(out: Path, name: str, method: str, seed: int) -> float:
    """Balanced accuracy in percent of one run, which is made if it is not there."""
    path = out / f"{name}-{re.sub(r'[ ,+]+', '-', method)}-seed{seed}"
    if not (path / "summary.json").exists():
        config = PROBLEMS[name] | {"method": METHODS[method], "seed": seed}
        if error := run_one(Order(str(path), config, tuning=True, pictures=False)):
            raise SystemExit(f"{path}: {error}")
    return 100 * float(json.loads((path / "summary.json").read_text())["balanced_accuracy"])


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--out", type=Path, default=Path("recipe-out"))
    parser.add_argument("--seeds", type=int, nargs="+", default=[0, 1, 2])
    parser.add_argument("--problems", nargs="+", choices=list(PROBLEMS), default=list(PROBLEMS))
    given = parser.parse_args()
    torch.set_num_threads(1)
    print(f"| method | {' | '.join(given.problems)} |")
    print(f"| --- |{' --- |' * len(given.problems)}")
    for method in METHODS:
        cells = []
        for name in given.problems:
            found = [score(given.out, name, method, seed) for seed in given.seeds]
            spread = statistics.stdev(found) if len(found) > 1 else 0.0
            cells.append(f"{statistics.fmean(found):.1f} ± {spread:.1f}")
        print(f"| {method} | {' | '.join(cells)} |", flush=True)


if __name__ == "__main__":
    main()
