"""Lower precision on a CPU: bfloat16 where the processor has it, TF32 nowhere."""

from __future__ import annotations

from dataclasses import replace

import pytest
import torch
from federations import LOOP, all_state, distance, run_rounds, simulate, small_model, unequal_federation

from counterpoise.core.tree import Tree
from counterpoise.engines.choose import EngineSettings
from counterpoise.errors import ConfigError
from counterpoise.run import checks

IMAGE = (1, 8, 8)
HALF = replace(LOOP, precision="bf16")


@pytest.fixture
def able(monkeypatch: pytest.MonkeyPatch) -> None:
    """Every processor can compute in bfloat16, if slowly; only fast ones are taken for it."""
    monkeypatch.setattr(checks, "multiplies_bfloat16", lambda: True)


def _state(engine: EngineSettings) -> Tree:
    sim = simulate(
        "scaffold",
        engine=engine,
        federation=unequal_federation(IMAGE),
        model=small_model("resnet8", IMAGE, norm="group", width=4),
        dtype=torch.float32,
    )
    return all_state(sim, run_rounds(sim))


@pytest.mark.usefixtures("able")
def test_bfloat16_on_a_cpu_is_near_and_keeps_parameters_and_memories_in_float32() -> None:
    exact, half = _state(LOOP), _state(HALF)
    assert 0 < distance(exact["params"], half["params"]) < 0.1
    assert {leaf.dtype for leaf in half["params"].values()} == {torch.float32}


@pytest.mark.usefixtures("able")
def test_bfloat16_on_a_cpu_is_the_same_in_every_number_of_processes() -> None:
    assert distance(_state(HALF), _state(replace(HALF, processes=2))) == 0


def test_bfloat16_is_refused_where_the_processor_has_no_products_of_it(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(checks, "multiplies_bfloat16", lambda: False)
    with pytest.raises(ConfigError, match="'full' on this CPU, not 'bf16', which needs a GPU or a processor"):
        _state(HALF)


def test_tf32_is_refused_on_a_cpu() -> None:
    with pytest.raises(ConfigError, match="'full' or 'bf16' on a CPU, not 'tf32', which needs a GPU"):
        _state(replace(LOOP, precision="tf32"))
