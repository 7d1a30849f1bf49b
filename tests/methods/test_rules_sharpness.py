"""FedSAM, MoFedSAM and FedLESAM against NumPy."""

from __future__ import annotations

import numpy as np
import pytest
from regression import Slope, Vector, assert_follows, mean_of, setting

from counterpoise.core.local import Local, factor

RHO = 0.5


def _sharp(y: Vector, slope: Slope) -> Vector:
    """The gradient a step of length rho uphill, over all parameters as one vector."""
    here = slope(y)
    return slope(y + RHO * here / (np.linalg.norm(here) + 1e-7))


def test_fedsam() -> None:
    run = setting({"fedsam": {"rho": RHO}})

    def rule(x: Vector, round: int, cohort: tuple[int, ...]) -> Vector:
        return run.shares(cohort) @ np.stack([run.train(x, round, client, _sharp) for client in cohort])

    assert_follows(run, rule)


@pytest.mark.parametrize("server", [1.0, 0.5])
def test_mofedsam(server: float) -> None:
    alpha, local = 0.3, Local(lr=0.3, batch_size=4, schedule=factor(0.7))
    run = setting({"mofedsam": {"rho": RHO, "alpha": alpha, "server_lr": server}}, local)
    momentum = np.zeros(24)

    def rule(x: Vector, round: int, cohort: tuple[int, ...]) -> Vector:
        nonlocal momentum
        known = momentum
        models = [
            run.train(x, round, k, lambda y, slope: alpha * _sharp(y, slope) + (1 - alpha) * known)
            for k in cohort
        ]
        delta = mean_of(models) - x
        momentum = -delta / (0.3 * 0.7**round * np.mean([run.steps(round, client) for client in cohort]))
        return x + server * delta

    assert_follows(run, rule)


def test_fedlesam_looks_back_along_the_last_move_of_the_server() -> None:
    run = setting({"fedlesam": {"rho": RHO}})
    previous: Vector | None = None

    def rule(x: Vector, round: int, cohort: tuple[int, ...]) -> Vector:
        nonlocal previous
        back = np.zeros_like(x) if previous is None else previous - x
        offset = RHO * back / np.linalg.norm(back) if back.any() else back
        previous = x
        models = [run.train(x, round, client, lambda y, slope: slope(y + offset)) for client in cohort]
        return run.shares(cohort) @ np.stack(models)

    assert_follows(run, rule)


def test_the_first_round_of_fedlesam_is_fedavg() -> None:
    run = setting("fedlesam")

    def rule(x: Vector, round: int, cohort: tuple[int, ...]) -> Vector:
        return run.shares(cohort) @ np.stack([run.train(x, round, client) for client in cohort])

    assert_follows(run, rule, cohorts=((0, 1, 2),))
