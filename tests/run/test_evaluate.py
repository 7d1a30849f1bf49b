"""Scores of a simulation: groups of classes, own weightings, clients, calibration."""

from __future__ import annotations

import pytest
import torch
from torch import nn

from counterpoise.data.dataset import Samples, no_scaling
from counterpoise.data.federation import Federation
from counterpoise.errors import ConfigError
from counterpoise.metrics import Shots
from counterpoise.metrics.scoring import Scoring
from counterpoise.run.assemble import assemble, build_scoring, load_federation
from counterpoise.run.build import build_simulation
from counterpoise.run.config.experiment import make_experiment
from counterpoise.run.simulation import Simulation

# A model that says class 0 wherever the first input is positive, class 1 elsewhere, and never class 2.
X = torch.tensor([[1.0, 0.0], [2.0, 0.0], [-1.0, 0.0], [-2.0, 0.0], [1.0, 0.0], [-1.0, 0.0]])
Y = torch.tensor([0, 0, 1, 1, 2, 0])
HELD = (torch.tensor([0, 2]), torch.tensor([5]), torch.tensor([], dtype=torch.int64))


def simulation(scoring: Scoring | None = None) -> Simulation:
    samples = Samples(X, Y)
    clients = (torch.tensor([1]), torch.tensor([3]), torch.tensor([4]))
    federation = Federation(samples, samples, ("a", "b", "c"), no_scaling(), clients, HELD)
    module = nn.Linear(2, 3)
    with torch.no_grad():
        module.weight.copy_(torch.tensor([[1.0, 0.0], [-1.0, 0.0], [0.0, 0.0]]))
        module.bias.copy_(torch.tensor([0.0, 0.0, -9.0]))
    return build_simulation(federation, "fedavg", module, rounds=1, scoring=scoring)


def test_scores_are_those_counted_by_hand() -> None:
    sim = simulation()
    scores = sim.evaluate(sim.open())
    assert scores["accuracy"] == pytest.approx(4 / 6)
    assert scores["per_class_recall"] == pytest.approx([2 / 3, 1.0, 0.0])
    assert scores["worst_class"] == "c"
    # Every answer is at least sigmoid(2) sure, and a third of them is wrong.
    assert 0.2 < scores["calibration_error"] < 0.35
    logits = X @ torch.tensor([[1.0, -1.0, 0.0], [0.0, 0.0, 0.0]]) - torch.tensor([0.0, 0.0, 9.0])
    assert scores["cross_entropy"] == pytest.approx(nn.functional.cross_entropy(logits, Y).item(), rel=1e-6)


def test_the_user_weighs_recalls_and_precisions() -> None:
    shots = Shots((0,), (1,), (2,))
    sim = simulation(Scoring(shots, ("a", "b", "c"), (1.0, 0.0, 0.0), (0.0, 1.0, 0.0)))
    # recall of a is 2/3; of three answers b two are right
    assert sim.evaluate(sim.open())["weighted_score"] == pytest.approx((2 / 3 + 2 / 3) / 2)


def test_clients_are_scored_on_what_they_hold_out() -> None:
    sim = simulation(Scoring(Shots((0,), (1,), (2,)), ("a", "b", "c"), clients=True))
    found = sim.evaluate(sim.open())["clients"]
    assert found == {
        "mean_client_balanced_accuracy": 0.5,
        "client_deviation": 0.5,
        "worst_client": 1,
        "worst_client_balanced_accuracy": 0.0,
        "best_client": 0,
        "best_client_balanced_accuracy": 1.0,
        "mean_client_accuracy": 0.5,
        "client_accuracy_deviation": 0.5,
        "worst_client_accuracy": 0.0,
        "best_client_accuracy": 1.0,
        "client": [0, 1],
        "client_held_out": [2, 1],
        "client_accuracy": [1.0, 0.0],
        "client_balanced_accuracy": [1.0, 0.0],
    }


def test_scoring_clients_needs_something_held_out() -> None:
    experiment = make_experiment({"evaluate": {"clients": True}})
    with pytest.raises(ConfigError, match=r"partition\.validation"):
        assemble(experiment)


def test_groups_of_classes_can_be_given() -> None:
    experiment = make_experiment(
        {"evaluate": {"shots": {"head": [9], "medium": [1, 2, 3, 4, 5, 6, 7, 8], "tail": [0]}}}
    )
    federation = load_federation(experiment)
    assert build_scoring(experiment.evaluate, federation).shots.head == (9,)
    wrong = make_experiment({"evaluate": {"shots": {"head": [9], "medium": [1], "tail": [0]}}})
    with pytest.raises(ConfigError, match=r"shots .* 0 to 9"):
        build_scoring(wrong.evaluate, federation)
