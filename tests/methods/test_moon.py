"""MOON: the loss worked by hand, its limits, what a client keeps, and models that it refuses."""

from __future__ import annotations

import math

import pytest
import torch
from federations import LOOP, STACKED, distance, run_rounds, simulate
from torch import nn

from counterpoise.core.messages import Task
from counterpoise.core.method import PARTS
from counterpoise.core.part import Batch, Outputs
from counterpoise.core.tree import add, take
from counterpoise.engines.choose import EngineSettings
from counterpoise.errors import ConfigError
from counterpoise.server.round import announce

CLOSE = 1e-12


def contrast(own: list[float], received: list[float], previous: list[float], temperature: float) -> float:
    """The contrastive penalty of one sample with these features."""
    logits = torch.zeros(1, 2, dtype=torch.float64)
    slot = {
        name: {"f": torch.tensor([f], dtype=torch.float64)}
        for name, f in (("received", received), ("previous", previous))
    }
    outputs = Outputs(
        logits, torch.tensor([own], dtype=torch.float64), lambda params: Outputs(logits, params["f"])
    )
    penalty = PARTS.build("model_contrastive", {"mu": 1.0, "temperature": temperature}).penalty
    assert penalty is not None
    return float(penalty(outputs, Batch(logits, torch.tensor([0]), torch.ones(1)), slot))


def test_the_loss_is_that_of_the_paper_worked_by_hand() -> None:
    # cosines 1 and 0, over 0.5: log(e^2 + e^0) - 2
    assert contrast([1, 0], [3, 0], [0, 2], 0.5) == pytest.approx(math.log(1 + math.exp(-2)), abs=CLOSE)
    # cosines 0.6 and 0.8, over 1
    assert contrast([3, 4], [1, 0], [0, 1], 1.0) == pytest.approx(math.log(1 + math.exp(0.2)), abs=CLOSE)


@pytest.mark.parametrize("engine", [LOOP, STACKED], ids=["loop", "stacked"])
def test_without_the_contrast_it_is_fedavg(engine: EngineSettings) -> None:
    moon, plain = (simulate(spec, engine=engine) for spec in ({"moon": {"mu": 0.0}}, "fedavg"))
    assert distance(run_rounds(moon).params, run_rounds(plain).params) < CLOSE


def test_on_a_first_visit_nothing_pulls_and_later_something_does() -> None:
    moon, plain = simulate("moon", cohort=None), simulate("fedavg", cohort=None)
    once = [run_rounds(sim, rounds=1) for sim in (moon, plain)]
    assert distance(once[0].params, once[1].params) < CLOSE
    twice = [run_rounds(sim, state, 1) for sim, state in zip((moon, plain), once, strict=True)]
    assert distance(twice[0].params, twice[1].params) > 1e-6


def test_the_contrast_stands_beside_another_loss() -> None:
    first, plain = simulate(["moon", "balanced_softmax"]), simulate(["fedavg", "balanced_softmax"])
    once = [run_rounds(sim, rounds=1) for sim in (first, plain)]
    assert distance(once[0].params, once[1].params) < CLOSE
    assert distance(run_rounds(first, once[0]).params, run_rounds(plain, once[1]).params) > 1e-6


def test_a_client_keeps_its_last_local_model() -> None:
    sim = simulate("moon", cohort=None)
    state = run_rounds(sim, rounds=1)
    replies = sim.engine.train([Task(2)], announce(sim.method, state, sim.work.local.lr))
    sim.engine.commit(1, [2])
    local = add(state.params, take(replies.delta, 0))
    assert distance(sim.engine.memory[2]["model_contrastive"]["previous"], local) == 0


def test_a_model_without_features_is_refused() -> None:
    with pytest.raises(ConfigError, match="features"):
        simulate("moon", model=nn.Sequential(nn.Linear(5, 4), nn.Tanh()))
