"""Twelve of sixty clients send the opposite of what they learned: the mean is lost, the median and a trimmed mean are not."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

import counterpoise as cp

pytestmark = pytest.mark.faults

ATTACK = {"sign_flip_attack": {"share": 0.2, "scale": 4.0}}
CLOSE, LOST = 0.03, 0.10  # how near to the same rule without attack, and how much the plain mean must lose
LOCAL = {"lr": 0.2, "batch_size": 128}


@pytest.fixture(scope="module")
def federation(data_root: Path) -> Any:
    """Balanced Fashion-MNIST over sixty clients."""
    return cp.split(cp.load_data("fashion_mnist", root=data_root), "iid", clients=60, seed=0)


def accuracy(federation: Any, *parts: Any) -> float:
    settings = {"rounds": 4, "local": LOCAL, "evaluate_every": 4}
    return float(cp.simulate(federation, ["fedavg", *parts], "mlp_004", **settings)["accuracy"])


@pytest.fixture(scope="module")
def clean(federation: Any) -> float:
    return accuracy(federation)


def test_the_attack_bites_the_plain_mean(federation: Any, clean: float) -> None:
    assert clean > 0.7
    assert accuracy(federation, ATTACK) < clean - LOST


@pytest.mark.parametrize("rule", ["median", {"trimmed_mean": {"beta": 0.2}}], ids=["median", "trimmed_mean"])
def test_a_robust_rule_under_attack_stays_within_three_points(
    federation: Any, clean: float, rule: Any
) -> None:
    assert accuracy(federation, rule, ATTACK) > clean - CLOSE
