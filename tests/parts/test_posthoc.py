"""Remedies after training: worked by hand, their limits, and that they touch only what is scored and saved."""

from __future__ import annotations

import math
from pathlib import Path

import pytest
import torch
from federations import LOOP, STACKED, distance, run_rounds, simulate
from safetensors.torch import load_file
from torch import nn

from counterpoise.core.method import PARTS, MethodSpec
from counterpoise.core.part import Census
from counterpoise.engines.choose import EngineSettings
from counterpoise.errors import ConfigError
from counterpoise.run.config.experiment import make_experiment
from counterpoise.run.runner import start
from counterpoise.run.simulation import Simulation

BOTH = ["logit_adjustment", "tau_norm"]


def presented(
    name: str, weight: list[list[float]], bias: list[float], counts: list[int], tau: float
) -> dict[str, torch.Tensor]:
    part = PARTS.build(name, {"tau": tau})
    params = {
        "head.weight": torch.tensor(weight, dtype=torch.float64),
        "head.bias": torch.tensor(bias, dtype=torch.float64),
    }
    tallied = {"counts": torch.tensor(counts)}
    slot = (
        part.init(params, Census(torch.tensor([sum(counts)]), len(counts), 1), tallied)
        if part.init is not None
        else {}
    )
    assert part.present is not None
    return part.present(params, {}, slot)[0]


def test_logits_are_shifted_by_the_log_of_the_shares() -> None:
    bias = presented("logit_adjustment", [[1.0], [1.0]], [0.5, 0.5], [30, 10], 1.0)["head.bias"]
    # Shares 3/4 and 1/4: the rarer class gains log 3 on the other.
    assert float(bias[1] - bias[0]) == pytest.approx(math.log(3), abs=1e-12)


def test_equal_classes_are_left_as_they_are() -> None:
    bias = presented("logit_adjustment", [[1.0], [1.0], [2.0]], [0.5, 0.1, 0.2], [7, 7, 7], 1.0)["head.bias"]
    assert bias.tolist() == pytest.approx([0.5, 0.1, 0.2], abs=1e-15)


def test_rows_are_divided_by_their_length_to_the_power_tau() -> None:
    found = presented("tau_norm", [[3.0, 4.0], [0.0, 2.0]], [1.0, 1.0], [1, 1], 1.0)
    assert torch.allclose(found["head.weight"], torch.tensor([[0.6, 0.8], [0.0, 1.0]], dtype=torch.float64))
    half = presented("tau_norm", [[3.0, 4.0], [0.0, 4.0]], [1.0, 1.0], [1, 1], 0.5)["head.weight"]
    assert torch.allclose(
        half,
        torch.tensor([[3.0, 4.0], [0.0, 4.0]], dtype=torch.float64)
        / torch.tensor([[5.0], [4.0]], dtype=torch.float64).sqrt(),
    )
    assert found["head.bias"].tolist() == [0.0, 0.0]


@pytest.mark.parametrize("name", BOTH)
@pytest.mark.parametrize("engine", [LOOP, STACKED], ids=["loop", "stacked"])
def test_training_is_that_of_the_method_alone(name: str, engine: EngineSettings) -> None:
    changed, plain = (simulate(spec, engine=engine) for spec in (["fedavg", name], "fedavg"))
    assert distance(run_rounds(changed).params, run_rounds(plain).params) == 0


@pytest.mark.parametrize("name", BOTH)
def test_scores_and_the_module_are_of_the_changed_model(name: str) -> None:
    def outputs(sim: Simulation) -> torch.Tensor:
        with torch.no_grad():
            found: torch.Tensor = sim.module(run_rounds(sim))(sim.work.federation.test.x)
        return found

    off: MethodSpec = ["fedavg", {name: {"tau": 0.0}}]
    changed, still, plain = (outputs(simulate(spec)) for spec in (["fedavg", name], off, "fedavg"))
    assert float((changed - plain).abs().max()) > 1e-3
    assert torch.allclose(still, plain, atol=1e-15)


def test_the_saved_model_is_the_one_that_was_scored(tmp_path: Path) -> None:
    def saved(method: MethodSpec) -> dict[str, torch.Tensor]:
        folder = tmp_path / str(len(list(tmp_path.iterdir())))
        start(
            make_experiment({"rounds": 1, "method": method, "data": {"name": "digits", "imbalance": 10.0}}),
            folder,
        )
        return load_file(folder / "model.safetensors")

    plain, adjusted = saved("fedavg"), saved(["fedavg", "logit_adjustment"])
    moved = [name for name in plain if not torch.equal(plain[name], adjusted[name])]
    assert moved == ["head.bias"]
    gain = adjusted["head.bias"] - plain["head.bias"]
    assert float(gain[9] - gain[0]) == pytest.approx(math.log(10), abs=0.1)  # the long tail is ten to one


@pytest.mark.parametrize("other", ["tau_norm", "federated_features"])
def test_a_shift_that_another_part_would_undo_is_refused(other: str) -> None:
    with pytest.raises(ConfigError, match=f"{other} would undo it; list {other} before logit_adjustment"):
        simulate(["fedavg", "logit_adjustment", other])
    simulate(["fedavg", other, "logit_adjustment"])


@pytest.mark.parametrize("name", BOTH)
def test_a_model_without_a_linear_head_is_refused(name: str) -> None:
    with pytest.raises(ConfigError, match="head"):
        simulate(["fedavg", name], model=nn.Sequential(nn.Linear(5, 4), nn.Tanh()))
