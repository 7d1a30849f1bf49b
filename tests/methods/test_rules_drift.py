"""SCAFFOLD, FedDyn and FedCM against NumPy, and the limits they promise."""

from __future__ import annotations

import numpy as np
import pytest
import torch
from federations import ask_clients
from regression import (
    FEATURES,
    Setting,
    Slope,
    Vector,
    as_params,
    as_vector,
    assert_follows,
    gradient,
    loss,
    mean_of,
    setting,
)
from scipy.optimize import minimize

from counterpoise.core.local import Local, factor
from counterpoise.core.tree import zeros
from counterpoise.server.cohort import Cohort
from counterpoise.server.state import ServerState

SIZE = 4 * FEATURES + 4


@pytest.mark.parametrize("server", [1.0, 0.5])
def test_scaffold(server: float) -> None:
    run = setting({"scaffold": {"server_lr": server}})
    control, own = np.zeros(SIZE), [np.zeros(SIZE) for _ in range(run.clients)]

    def rule(x: Vector, round: int, cohort: tuple[int, ...]) -> Vector:
        nonlocal control
        models, change = [], np.zeros(SIZE)
        for client in cohort:
            correction = control - own[client]
            y = run.train(x, round, client, lambda at, slope, c=correction: slope(at) + c)  # type: ignore[misc]
            renewed = own[client] - control + (x - y) / (run.lr(round) * run.steps(round, client))
            change += renewed - own[client]
            own[client] = renewed
            models.append(y)
        control = control + change / run.clients
        return x + server * (mean_of(models) - x)

    assert_follows(run, rule)


def test_scaffold_keeps_the_servers_control_at_the_mean_of_all_clients() -> None:
    run = setting("scaffold")
    state, samples = run.sim.open(), run.sim.work.federation.samples()
    for t in range(30):
        state, _ = ask_clients(run.sim, state, Cohort(2).draw(0, t, samples))
    own = [as_vector(run.sim.engine.memory[k]["control_variates"]["control"]) for k in range(run.clients)]
    control = as_vector(state.slots["control_variates"]["control"])
    assert np.abs(control).max() > 1e-2
    assert np.abs(control - mean_of(own)).max() < 1e-14


def test_feddyn() -> None:
    run, alpha = setting({"feddyn": {"alpha": 0.3}}), 0.3
    own = [np.zeros(SIZE) for _ in range(run.clients)]

    def rule(x: Vector, round: int, cohort: tuple[int, ...]) -> Vector:
        models = []
        for client in cohort:

            def direction(y: Vector, slope: Slope, h: Vector = own[client]) -> Vector:
                return slope(y) + alpha * (y - x + h)

            models.append(run.train(x, round, client, direction))
            own[client] = own[client] + models[-1] - x
        return mean_of(models) + mean_of(own)

    assert_follows(run, rule)


@pytest.mark.parametrize("server", [1.0, 0.5])
def test_fedcm_divides_by_the_rate_of_the_round_that_made_the_update(server: float) -> None:
    local = Local(lr=0.4, batch_size=4, schedule=factor(0.5))
    run, alpha = setting({"fedcm": {"alpha": 0.3, "server_lr": server}}, local), 0.3
    direction = np.zeros(SIZE)

    def rule(x: Vector, round: int, cohort: tuple[int, ...]) -> Vector:
        nonlocal direction
        rate = 0.4 * 0.5**round
        known = direction
        models = [
            run.train(x, round, k, lambda y, slope: alpha * slope(y) + (1 - alpha) * known) for k in cohort
        ]
        delta = mean_of(models) - x
        direction = -delta / (rate * np.mean([run.steps(round, client) for client in cohort]))
        return x + server * delta

    assert_follows(run, rule)


def _whole_batches(method: str) -> Setting:
    return setting(method, Local(lr=0.2, batch_size=64, epochs=4), sizes=(24, 20, 18, 16))


def _client_gradients(run: Setting, model: Vector) -> list[Vector]:
    return [gradient(model, *run.data(client)) for client in range(run.clients)]


def _optimum(run: Setting) -> Vector:
    """Where the plain mean of the clients' losses is flat; biases are free up to a shift, the start settles it."""

    def mean_loss(model: Vector) -> float:
        return float(np.mean([loss(model, *run.data(client)) for client in range(run.clients)]))

    def slope(model: Vector) -> Vector:
        return mean_of(_client_gradients(run, model))

    return np.asarray(
        minimize(mean_loss, np.zeros(SIZE), jac=slope, method="BFGS", options={"gtol": 1e-10}).x
    )


def _one_round_from(run: Setting, model: Vector, part: str, key: str, scale: float) -> float:
    """How far a round moves away from a model where every client remembers ``scale`` times its own gradient there."""
    opened = run.sim.open()
    for client, own in enumerate(_client_gradients(run, model)):
        run.sim.engine.memory[client] = {part: {key: as_params(scale * own)}} if part else {}
    slots = {part: {key: zeros(opened.params)}} if part else {}
    after, _ = ask_clients(run.sim, ServerState(as_params(model), {}, slots), (0, 2))
    return float(np.abs(as_vector(after.params) - model).max())


def test_the_optimum_of_the_mean_loss_is_a_fixed_point_of_scaffold_and_feddyn_but_not_of_fedavg() -> None:
    model = _optimum(_whole_batches("fedavg"))
    assert np.abs(mean_of(_client_gradients(_whole_batches("fedavg"), model))).max() < 1e-7
    assert _one_round_from(_whole_batches("scaffold"), model, "control_variates", "control", 1.0) < 1e-6
    assert _one_round_from(_whole_batches("feddyn"), model, "dynamic_regulariser", "drift", -10.0) < 1e-6
    assert _one_round_from(_whole_batches("fedavg"), model, "", "", 0.0) > 1e-2


def test_feddyn_reaches_the_optimum_that_fedavg_misses() -> None:
    model = _optimum(_whole_batches("fedavg"))
    flat = torch.from_numpy(model)

    def slope_after(method: str) -> float:
        run = _whole_batches(method)
        state = ServerState(as_params(flat.numpy() + 0.3), {}, run.sim.open().slots)
        for _ in range(40):
            state, _ = ask_clients(run.sim, state, range(run.clients))
        return float(np.abs(mean_of(_client_gradients(run, as_vector(state.params)))).max())

    dynamic, averaged = slope_after("feddyn"), slope_after("fedavg")
    assert dynamic < averaged / 5
