"""The sweep of `counterpoise demo`: FedAvg, baselines and remedies for class imbalance on long-tailed data."""

from __future__ import annotations

from typing import Any

from counterpoise.data.root import look_for
from counterpoise.sweep.sweep import Sweep, make_sweep

SCHEDULE = {"cosine": {"floor": 0.001}}  # the same for all: normalised steps do not end without one


def _name(method: Any) -> str:
    """The names of its parts without arguments, which the table has no room for."""
    parts = method if isinstance(method, list) else [method]
    return "+".join(part if isinstance(part, str) else next(iter(part)) for part in parts)


# To add a method to the demo, list it here with its rate: the best of seven on validation samples of the digits, found by
# experiments/sweeps/digits-tuned.toml. For Fashion-MNIST they are not tuned again.
RATES: list[tuple[Any, float]] = [
    ("fedavg", 0.4),
    ("fedavgm", 0.1),
    ("scaffold", 0.2),
    ("feddyn", 0.4),
    ("fedcm", 1.6),
    ("fedwcm", 0.8),
    ("fedbal", 0.4),
    ("fedrela", 0.4),
    (["fedavg", "focal"], 0.4),
    (["fedavg", {"balanced_softmax": {"counts": "global"}}], 0.4),
    (["fedavgm", {"balanced_softmax": {"counts": "global"}}], 0.1),
    (["fedavg", "logit_adjustment"], 0.4),
    (["fedavg", {"resample": {"rate": 0.6}}], 0.4),
    (["fedcgnm", {"resample": {"rate": 0.6}}], 0.8),
    ("counterpoise", 0.2),
]
METHODS: list[Any] = [
    {"name": _name(method), "method": method, "local": {"lr": rate}} for method, rate in RATES
]

DIGITS: dict[str, Any] = {
    "name": "digits",
    "rounds": 40,
    "data": {"name": "digits", "imbalance": 20.0},
    "partition": {"name": "dirichlet", "clients": 20, "alpha": 0.3},
    "cohort": {"size": 8},
    "local": {"epochs": 2, "batch_size": 16, "schedule": SCHEDULE},
    "evaluate": {"every": 5},
    "checkpoint": {"every": 20},
}

FASHION: dict[str, Any] = {
    "name": "Fashion-MNIST",
    "rounds": 10,
    "data": {"name": "fashion_mnist", "imbalance": 100.0},
    "partition": {"name": "dirichlet", "clients": 50, "alpha": 0.3},
    "cohort": {"size": 5},
    "local": {"epochs": 2, "batch_size": 32, "schedule": SCHEDULE},
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
