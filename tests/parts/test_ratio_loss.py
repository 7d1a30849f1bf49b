"""Ratio Loss: weights from counts, weights from the server's own samples, and what they come to by hand."""

from __future__ import annotations

import math
from dataclasses import replace

import pytest
import torch
from federations import LOOP, STACKED, distance, run_rounds, simulate, small_model, unequal_federation
from loss_hooks import built, told, weights_of
from torch import nn

from counterpoise.core.part import Batch, Outputs
from counterpoise.core.rng import generator
from counterpoise.errors import ConfigError
from counterpoise.parts.class_gradients import head_gradients
from counterpoise.parts.ratio_loss import update_ratios
from counterpoise.server.round import diagnose

AUXILIARY = ["fedavg", {"ratio_loss": {"source": "auxiliary"}}]


def test_weights_from_the_counts_of_all_clients_by_hand() -> None:
    part, clients = built("ratio_loss"), [[90, 1, 0, 0], [10, 3, 0, 50]]
    # n = 100, 4, 0, 50: 1 + 0.1 (1, 25, -, 2); an absent class counts as the largest.
    assert weights_of(part, clients[0], told(part, clients)) == pytest.approx([1.1, 3.5, 1.1, 1.2])
    other = built("ratio_loss", alpha=0.5, beta=1.0)
    assert weights_of(other, clients[0], told(other, clients)) == pytest.approx([1.5, 25.5, 1.5, 2.5])


def test_ratios_by_hand() -> None:
    # Output 0: own 4 and 1, others (1, 3) and (-1, 1). At the second weight another class moves more than 0.8 of the own.
    # 4 / |mean(1, 3)| would be 2 at the first; 3 is less than 0.8 * 4, so it counts.
    gradients = torch.zeros(3, 3, 2, dtype=torch.float64)
    gradients[:, 0] = torch.tensor([[-4.0, 1.0], [1.0, -1.0], [3.0, 1.0]])
    # Output 1: both weights speak for class 1: (5 + 1) / |mean(1 + .5, -1.1 + .1)| = 6 / 0.25.
    gradients[:, 1] = torch.tensor([[1.0, 0.5], [-5.0, -1.0], [-1.1, 0.1]])
    # Output 2: no weight speaks for class 2.
    gradients[:, 2] = torch.tensor([[1.0, 1.0], [2.0, 2.0], [2.0, 2.0]])
    assert update_ratios(gradients).tolist() == pytest.approx([2.0, 24.0, 10.0])


def test_ratios_are_capped_and_ten_where_there_is_nothing_to_divide_by() -> None:
    gradients = torch.zeros(3, 3, 1, dtype=torch.float64)
    gradients[0, 0], gradients[1, 0] = 1.0, -1e-5  # 1 / mean(1e-5, 0) is far above the cap
    gradients[1, 1] = 1.0  # nobody else moves; and class 2 has no sample
    assert update_ratios(gradients).tolist() == [5000.0, 10.0, 10.0]


def test_head_gradients_are_those_of_autograd() -> None:
    head = nn.Linear(6, 4).double()
    features = torch.randn(9, 6, generator=generator(0, "features"), dtype=torch.float64)
    y = torch.tensor([0, 1, 2, 0, 1, 2, 0, 0, 2])
    found = head_gradients(Outputs(head(features), features), Batch(features, y, torch.ones(9)))
    assert found["samples"].tolist() == [4, 2, 3, 0]
    for c in range(3):
        loss = nn.functional.cross_entropy(head(features[y == c]), y[y == c], reduction="sum")
        (expected,) = torch.autograd.grad(loss, head.weight)
        torch.testing.assert_close(found["gradients"][c], expected)


def test_a_model_without_preference_has_the_ratio_of_the_classes() -> None:
    # Softmax 1/4 everywhere: own 3/4 of the features against 1/4, so R = 3 where all classes look alike.
    outputs = Outputs(torch.zeros(8, 4, dtype=torch.float64), torch.ones(8, 5, dtype=torch.float64))
    sums = head_gradients(outputs, Batch(outputs.features, torch.arange(4).repeat(2), torch.ones(8)))
    assert update_ratios(sums["gradients"] / 2).tolist() == pytest.approx([3.0] * 4)


def test_the_auxiliary_weights_are_those_of_the_model_after_the_round() -> None:
    sim = simulate(AUXILIARY)
    assert diagnose(sim.method, sim.open())["ratio_loss"]["weights"] == pytest.approx([1.0] * 4)
    state = run_rounds(sim, rounds=2)
    own = sim.work.federation.validation
    assert own is not None
    outputs, _ = sim.work.model.apply(state.params, {}, own.x, train=False)
    sums = head_gradients(outputs, Batch(own.x, own.y, torch.ones_like(own.y)))
    ratios = update_ratios(sums["gradients"] / sums["samples"].view(-1, 1, 1))
    assert state.slots["ratio_loss"]["weights"].tolist() == pytest.approx((1 + 0.1 * ratios).tolist())
    assert all(math.isfinite(w) and w > 1 for w in state.slots["ratio_loss"]["weights"].tolist())
    assert distance(state.params, run_rounds(simulate("fedavg"), rounds=2).params) > 1e-6


def test_stacked_equals_loop() -> None:
    one, two = (simulate(AUXILIARY, engine=engine) for engine in (LOOP, replace(STACKED, chunk=2)))
    first, second = run_rounds(one), run_rounds(two)
    assert distance(first.params, second.params) < 1e-8


def test_without_samples_of_the_server_it_is_refused() -> None:
    federation = replace(unequal_federation(), validation=None)
    with pytest.raises(ConfigError, match=r"data.validation must be above 0"):
        simulate(AUXILIARY, federation=federation)


def test_a_model_that_does_not_name_its_features_is_refused() -> None:
    model = nn.Sequential(nn.Linear(5, 4), nn.Tanh())
    with pytest.raises(ConfigError, match="needs a model with `features` and `head`, not "):
        simulate(AUXILIARY, model=model)
    run_rounds(simulate(AUXILIARY, model=small_model()), rounds=1)
    run_rounds(simulate(["fedavg", "ratio_loss"], model=model), rounds=1)
