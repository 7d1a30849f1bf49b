"""The angle by which each layer turns: by hand, for every layer, without a trace in the run."""

from __future__ import annotations

import math

import pytest
import torch
from federations import ask_clients, distance, run_rounds, simulate

from counterpoise.core.messages import Broadcast, Task
from counterpoise.core.part import layer_names
from counterpoise.parts.layer_cosines import cosines
from counterpoise.server.round import diagnose


def test_cosines_by_hand() -> None:
    sent = torch.tensor([[1.0, 0.0]])
    deltas = torch.tensor([[[0.0, 1.0]], [[2.0, 0.0]], [[-2.0, 0.0]], [[-1.0, 0.0]], [[0.0, 0.0]]])
    assert cosines(sent, deltas).tolist() == pytest.approx([math.sqrt(0.5), 1, -1, 0, 1])


def test_a_tensor_of_zeros_has_no_direction() -> None:
    assert cosines(torch.zeros(2), torch.tensor([[1.0, 1.0], [0.0, 0.0]])).tolist() == [0, 0]


def test_layers_are_named_in_the_order_of_their_numbers() -> None:
    names = ["body.10.weight", "body.2.weight", "head.weight", "body.2.bias"]
    params = {name: torch.zeros(2 if "bias" in name else (2, 2)) for name in names}
    assert layer_names(params) == ["body.2.weight", "body.10.weight", "head.weight"]


def test_it_records_the_mean_over_the_clients_of_each_layer_and_changes_nothing() -> None:
    sim, plain = simulate(["fedavg", "layer_cosines"]), simulate("fedavg")
    state, tasks = sim.open(), [Task(0), Task(2)]
    replies = sim.engine.train(tasks, Broadcast(0, 0.1, state.params, {}, {}))
    after, _ = ask_clients(sim, state, [0, 2])
    found = diagnose(sim.method, after)["layer_cosines"]["cosines"]
    expected = [
        torch.stack(
            [
                torch.cosine_similarity(
                    state.params[name].flatten(), (state.params[name] + d).flatten(), dim=0
                )
                for d in replies.delta[name]
            ]
        ).mean()
        for name in ("body.1.weight", "head.weight")
    ]
    assert found == pytest.approx([float(e) for e in expected], rel=1e-12)
    assert distance(run_rounds(sim).params, run_rounds(plain).params) == 0
