"""FedAvg, FedProx, FedAvgM, FedNova, FedAdam and FedYogi against NumPy."""

from __future__ import annotations

import numpy as np
import pytest
from federations import ask_clients
from regression import COHORTS, Direction, Slope, Vector, as_vector, assert_follows, loss, mean_of, setting

from counterpoise.core.local import Local


def test_the_clients_take_unequal_numbers_of_steps() -> None:
    run = setting("fedavg")
    assert [run.steps(0, client) for client in range(6)] == [3, 2, 1, 2, 1, 1]


def test_the_reported_loss_is_the_mean_over_clients_of_their_mean_over_steps() -> None:
    run = setting("fedavg", Local(lr=0.0, batch_size=4))  # the model stays where it is
    state = run.sim.open()
    model = as_vector(state.params)
    _, outcome = ask_clients(run.sim, state, (0, 1, 2))
    means = [np.mean([loss(model, *batch) for batch in run.batches(0, client)]) for client in (0, 1, 2)]
    assert outcome.loss == pytest.approx(np.mean(means), rel=1e-12)


@pytest.mark.parametrize("server", [1.0, 0.5])
def test_fedavg_by_samples(server: float) -> None:
    run = setting({"fedavg": {"server_lr": server}})

    def rule(x: Vector, round: int, cohort: tuple[int, ...]) -> Vector:
        models = np.stack([run.train(x, round, client) for client in cohort])
        return x + server * (run.shares(cohort) @ models - x)

    assert_follows(run, rule)


def test_fedavg_uniform() -> None:
    run = setting({"fedavg": {"weighting": "uniform"}})
    assert_follows(run, lambda x, r, cohort: mean_of([run.train(x, r, client) for client in cohort]))


def test_fedprox() -> None:
    run, mu = setting({"fedprox": {"mu": 0.7}}), 0.7

    def rule(x: Vector, round: int, cohort: tuple[int, ...]) -> Vector:
        def direction(y: Vector, slope: Slope) -> Vector:
            return slope(y) + mu * (y - x)

        return run.shares(cohort) @ np.stack([run.train(x, round, client, direction) for client in cohort])

    assert_follows(run, rule)


@pytest.mark.parametrize("server", [1.0, 0.3])
def test_fedavgm(server: float) -> None:
    run, momentum = setting({"fedavgm": {"beta": 0.8, "server_lr": server}}), np.zeros(24)

    def rule(x: Vector, round: int, cohort: tuple[int, ...]) -> Vector:
        nonlocal momentum
        models = np.stack([run.train(x, round, client) for client in cohort])
        momentum = 0.8 * momentum + (x - run.shares(cohort) @ models)
        return x - server * momentum

    assert_follows(run, rule)


def _heavy_ball(rho: float, mu: float, anchor: Vector) -> Direction:
    velocity = np.zeros_like(anchor)

    def direction(y: Vector, slope: Slope) -> Vector:
        nonlocal velocity
        velocity = rho * velocity + slope(y) + mu * (y - anchor)
        return velocity

    return direction


def _closed_form(steps: int, rho: float, shrink: float) -> float:
    """What the steps amount to: the paper's forms for momentum rho, or for a proximal term with shrink = lr mu."""
    if shrink:
        return (1 - (1 - shrink) ** steps) / shrink
    return (steps - rho * (1 - rho**steps) / (1 - rho)) / (1 - rho)


@pytest.mark.parametrize("effective", ["response", "steps"])
@pytest.mark.parametrize(
    ("rho", "mu"), [(0.0, 0.0), (0.9, 0.0), (0.0, 0.5)], ids=["plain", "momentum", "prox"]
)
def test_fednova(rho: float, mu: float, effective: str) -> None:
    local = Local(lr=0.2, batch_size=4, momentum=rho)
    run = setting({"fednova": {"mu": mu, "effective": effective}}, local)

    def rule(x: Vector, round: int, cohort: tuple[int, ...]) -> Vector:
        steps = [run.steps(round, client) for client in cohort]
        response = np.array([_closed_form(tau, rho, 0.2 * mu) for tau in steps])
        models = np.stack([run.train(x, round, client, _heavy_ball(rho, mu, x)) for client in cohort])
        shares = run.shares(cohort)
        tau = shares @ (response if effective == "response" else np.array(steps))
        return np.asarray(x - tau * (shares @ ((x - models) / response[:, None])))

    assert_follows(run, rule)


def test_fednova_with_momentum_and_a_proximal_term_divides_by_the_sum_of_gradient_coefficients() -> None:
    rho, mu, lr = 0.6, 0.5, 0.2
    run = setting({"fednova": {"mu": mu}}, Local(lr=lr, batch_size=4, momentum=rho))

    def response(steps: int) -> float:
        """How far a gradient of 1 that never changes carries a client, in units of lr."""
        y = velocity = 0.0
        for _ in range(steps):
            velocity = rho * velocity + 1 + mu * y
            y -= lr * velocity
        return -y / lr

    def rule(x: Vector, round: int, cohort: tuple[int, ...]) -> Vector:
        a = np.array([response(run.steps(round, client)) for client in cohort])
        models = np.stack([run.train(x, round, client, _heavy_ball(rho, mu, x)) for client in cohort])
        return np.asarray(x - (run.shares(cohort) @ a) * (run.shares(cohort) @ ((x - models) / a[:, None])))

    assert_follows(run, rule)


@pytest.mark.parametrize("momentum", [0.0, 0.9])
def test_fednova_with_equal_steps_equals_fedavg(momentum: float) -> None:
    local = Local(lr=0.2, batch_size=50, epochs=3, momentum=momentum)
    nova, plain = setting("fednova", local), setting("fedavg", local)
    ours, theirs = nova.sim.open(), plain.sim.open()
    for cohort in COHORTS:
        ours, _ = ask_clients(nova.sim, ours, cohort)
        theirs, _ = ask_clients(plain.sim, theirs, cohort)
    np.testing.assert_allclose(as_vector(ours.params), as_vector(theirs.params), rtol=0, atol=1e-14)


@pytest.mark.parametrize("name", ["fedadam", "fedyogi"])
def test_adaptive_servers(name: str) -> None:
    lr, beta1, beta2, tau = 0.05, 0.7, 0.9, 0.01
    run = setting({name: {"lr": lr, "beta1": beta1, "beta2": beta2, "tau": tau}})
    mean, square = np.zeros(24), np.full(24, tau**2)

    def rule(x: Vector, round: int, cohort: tuple[int, ...]) -> Vector:
        nonlocal mean, square
        delta = run.shares(cohort) @ np.stack([run.train(x, round, client) for client in cohort]) - x
        mean = beta1 * mean + (1 - beta1) * delta
        if name == "fedadam":
            square = beta2 * square + (1 - beta2) * delta**2
        else:
            square = square - (1 - beta2) * delta**2 * np.sign(square - delta**2)
        return x + lr * mean / (np.sqrt(square) + tau)

    assert_follows(run, rule)
