"""Softmax regression by hand in NumPy, and the frame in which a method's rule is computed again from its formulas.

A model is one vector: the weights [C, F] row by row, then the biases [C].
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import partial
from typing import TypeAlias

import numpy as np
import torch
from federations import ask_clients, simulate, small_model, unequal_federation
from numpy.typing import NDArray

from counterpoise.client.plan import make_plan
from counterpoise.core.local import Local
from counterpoise.core.method import MethodSpec
from counterpoise.core.rng import generator
from counterpoise.core.tree import Params
from counterpoise.run.simulation import Simulation
from counterpoise.server.state import ServerState

Vector: TypeAlias = NDArray[np.float64]
Batch: TypeAlias = tuple[Vector, NDArray[np.int64]]
Slope: TypeAlias = Callable[[Vector], Vector]  # gradient of one batch's loss at a model
Direction: TypeAlias = Callable[[Vector, Slope], Vector]  # model, slope -> what a step goes against

SIZES = (9, 7, 4, 5, 3, 1)  # in batches of 4: 3, 2, 1, 2, 1 and 1 steps
CLASSES, FEATURES = 4, 5
COHORTS = ((0, 1, 2), (1, 3, 4), (0, 4, 5), (0, 1, 3))


def loss(model: Vector, x: Vector, y: NDArray[np.int64]) -> float:
    """Mean cross entropy."""
    logits = _logits(model, x)
    return float(np.mean(np.logaddexp.reduce(logits, axis=1) - logits[np.arange(len(y)), y]))


def gradient(model: Vector, x: Vector, y: NDArray[np.int64]) -> Vector:
    """Of the mean cross entropy: ``(p - onehot(y)) x^T / n``."""
    logits = _logits(model, x)
    chance = np.exp(logits - logits.max(1, keepdims=True))
    chance /= chance.sum(1, keepdims=True)
    chance[np.arange(len(y)), y] -= 1
    return np.concatenate([(chance.T @ x).ravel(), chance.sum(0)]) / len(y)


def _logits(model: Vector, x: Vector) -> Vector:
    weight, bias = model[: CLASSES * FEATURES].reshape(CLASSES, FEATURES), model[CLASSES * FEATURES :]
    return np.asarray(x @ weight.T + bias)


def plain(model: Vector, slope: Slope) -> Vector:
    return slope(model)


def mean_of(models: Sequence[Vector]) -> Vector:
    return np.asarray(np.mean(models, axis=0))


def as_vector(params: Params) -> Vector:
    return torch.cat([params["head.weight"].flatten(), params["head.bias"]]).numpy()


def as_params(vector: Vector) -> Params:
    weight, bias = torch.split(torch.from_numpy(vector.copy()), [CLASSES * FEATURES, CLASSES])
    return {"head.weight": weight.view(CLASSES, FEATURES), "head.bias": bias}


@dataclass
class Setting:
    """One simulated run whose data and batches NumPy can see."""

    sim: Simulation

    @property
    def clients(self) -> int:
        return len(self.sim.work.federation.clients)

    def samples(self, client: int) -> int:
        return len(self.sim.work.federation.clients[client])

    def lr(self, round: int) -> float:
        return self.sim.work.local.rate(round, self.sim.rounds)

    def data(self, client: int) -> Batch:
        data, train = self.sim.work.federation.client(client), self.sim.work.federation.train
        return train.x[data.rows].numpy(), data.labels.numpy()

    def batches(self, round: int, client: int) -> list[Batch]:
        local, data = self.sim.work.local, self.sim.work.federation.client(client)
        stream = generator(self.sim.seed, "plan", round, client)
        plan = make_plan(data, local.batch_size, local.epochs, local.batching, stream)
        x, y = self.data(client)
        rows = [p[m].numpy() for p, m in zip(plan.positions, plan.mask, strict=True)]
        return [(x[r], y[r]) for r in rows]

    def steps(self, round: int, client: int) -> int:
        return len(self.batches(round, client))

    def shares(self, cohort: Sequence[int]) -> Vector:
        """Weights by samples."""
        samples = np.array([self.samples(client) for client in cohort], dtype=np.float64)
        return np.asarray(samples / samples.sum())

    def train(
        self, model: Vector, round: int, client: int, direction: Direction = plain, rate: float = 1.0
    ) -> Vector:
        """A client's model after its local steps, at this factor on the round's learning rate."""
        for x, y in self.batches(round, client):
            model = np.asarray(model - rate * self.lr(round) * direction(model, partial(gradient, x=x, y=y)))
        return model


Rule: TypeAlias = Callable[[Vector, int, tuple[int, ...]], Vector]  # model, round, cohort -> next model


def setting(spec: MethodSpec, local: Local | None = None, sizes: Sequence[int] = SIZES) -> Setting:
    local = local or Local(lr=0.2, batch_size=4)
    model = small_model("mlp", hidden=[])
    federation = unequal_federation((FEATURES,), sizes)
    return Setting(simulate(spec, federation=federation, model=model, local=local, rounds=len(COHORTS)))


def assert_follows(run: Setting, rule: Rule, cohorts: Sequence[tuple[int, ...]] = COHORTS) -> ServerState:
    """The simulation and the rule in NumPy agree after every round."""
    state = run.sim.open()
    model = as_vector(state.params)
    for t, cohort in enumerate(cohorts):
        state, outcome = ask_clients(run.sim, state, cohort)
        assert not outcome.rejected
        model = rule(model, t, cohort)
        np.testing.assert_allclose(as_vector(state.params), model, rtol=0, atol=1e-12, err_msg=f"round {t}")
    return state
