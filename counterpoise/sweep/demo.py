"""The sweep of `counterpoise demo`: FedAvg, baselines and remedies for class imbalance on long-tailed data."""

from __future__ import annotations

from typing import Any

from counterpoise.data.root import look_for
from counterpoise.sweep.sweep import Sweep, make_sweep

# To add a method to the demo, list it here.
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
    ["fedavg", "resample"],
    ["fedcgnm", "resample"],
]

DIGITS: dict[str, Any] = {
    "name": "digits",
    "rounds": 40,
    "data": {"name": "digits", "imbalance": 20.0},
    "partition": {"name": "dirichlet", "clients": 20, "alpha": 0.3},
    "cohort": {"size": 8},
    "local": {"lr": 0.1, "epochs": 2, "batch_size": 16},
    "evaluate": {"every": 5},
    "checkpoint": {"every": 20},
}

FASHION: dict[str, Any] = {
    "name": "Fashion-MNIST",
    "rounds": 10,
    "data": {"name": "fashion_mnist", "imbalance": 100.0},
    "partition": {"name": "dirichlet", "clients": 50, "alpha": 0.3},
    "cohort": {"size": 5},
    "local": {"lr": 0.05, "epochs": 2, "batch_size": 32},
    "evaluate": {"every": 5},
    "checkpoint": {"every": 10},
}


SEEDS = 10  # enough pairs to find a difference among a dozen methods after Holm's correction


def demo_sweep(seeds: int = SEEDS, rounds: int | None = None) -> Sweep:
    """Long-tailed digits, and Fashion-MNIST if its files are found."""
    problems = [DIGITS, FASHION] if has_fashion() else [DIGITS]
    return make_sweep(
        {
            "methods": METHODS,
            "seeds": seeds,
            "problems": [problem if rounds is None else problem | {"rounds": rounds} for problem in problems],
        },
        "demo",
    )


def has_fashion() -> bool:
    return look_for(None, "fashion_mnist", "train-images-idx3-ubyte") is not None
