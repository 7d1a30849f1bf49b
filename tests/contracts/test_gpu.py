"""On a GPU every method and part gives the run that it gives on a CPU, up to rounding."""

from __future__ import annotations

from dataclasses import replace

import pytest
import torch
from federations import (
    LOOP,
    STACKED,
    all_state,
    distance,
    every_spec,
    run_rounds,
    simulate,
    small_model,
    spec_name,
)

from counterpoise.core.local import Local
from counterpoise.core.method import MethodSpec

pytestmark = pytest.mark.skipif(not torch.cuda.is_available(), reason="no GPU on this machine")


@pytest.mark.parametrize("name", ["loop", "stacked"])
@pytest.mark.parametrize("spec", every_spec(), ids=spec_name)
def test_a_run_on_a_gpu_equals_the_run_on_a_cpu(spec: MethodSpec, name: str) -> None:
    gpu = replace(LOOP if name == "loop" else replace(STACKED, chunk=2), device="cuda")
    here, there = simulate(spec), simulate(spec, engine=gpu)
    found, expected = all_state(there, run_rounds(there)), all_state(here, run_rounds(here))
    assert distance(expected, found) < 1e-8


@pytest.mark.parametrize("name", ["loop", "stacked"])
def test_batch_norm_on_a_gpu_equals_the_run_on_a_cpu(name: str) -> None:
    local = Local(lr=0.05, batch_size=12, batching="wrap", momentum=0.9, weight_decay=0.01, clip=1.0)
    gpu = replace(LOOP if name == "loop" else replace(STACKED, chunk=2), device="cuda")
    runs = [
        simulate("fedsam", model=small_model(hidden=[6], norm="batch"), local=local, engine=engine)
        for engine in (LOOP, gpu)
    ]
    here, there = (all_state(sim, run_rounds(sim)) for sim in runs)
    assert distance(here, there) < 1e-8
