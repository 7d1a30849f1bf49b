"""Every method's stacked step compiles as one program; what cannot is said and runs as it is, to the same model."""

from __future__ import annotations

from typing import Any

import pytest
import torch
from federations import (
    STACKED,
    all_state,
    distance,
    every_spec,
    method_specs,
    part_specs,
    run_rounds,
    simulate,
    small_model,
    spec_name,
    unequal_federation,
)
from torch import vmap

from counterpoise.core.method import Method, MethodSpec, build_method, read_spec
from counterpoise.core.part import Part, Step
from counterpoise.core.tree import Params, Tree
from counterpoise.engines.captured import CompiledStep
from counterpoise.run.simulation import Simulation

EVEN = unequal_federation(sizes=(12,) * 5)  # all take the same steps, so that one shape is compiled


def traced(spec: MethodSpec | Method, **settings: Any) -> Simulation:
    """A run whose step is traced as for a compiler, and then executed as traced: only the fusing is left out."""
    sim = simulate(spec, engine=STACKED, federation=EVEN, **settings)
    plain = vmap(sim.engine.trainer._step_of(sim.work.model))  # type: ignore[attr-defined]
    sim.engine.trainer._step = CompiledStep(plain, plain, backend="eager")  # type: ignore[attr-defined]
    return sim


def said(caplog: pytest.LogCaptureFixture) -> list[str]:
    """Our own words; torch logs a lot of its own."""
    return [record.getMessage() for record in caplog.records if record.name == "counterpoise"]


def compiled_specs() -> list[Any]:
    """All specs; a part that a method has too is compiled with that method, and by itself only in long runs."""
    known = {part.name for spec in method_specs() for part in build_method(spec).parts}
    twice = [spec for spec in part_specs() if known & {name for name, _ in read_spec(spec)}]
    return [pytest.param(spec, marks=pytest.mark.slow) if spec in twice else spec for spec in every_spec()]


@pytest.mark.parametrize("spec", compiled_specs(), ids=spec_name)
def test_every_step_is_one_program(spec: MethodSpec, caplog: pytest.LogCaptureFixture) -> None:
    torch._dynamo.reset()
    sim = traced(spec)
    alone = simulate(spec, engine=STACKED, federation=EVEN)
    states = [all_state(one, run_rounds(one, rounds=2)) for one in (sim, alone)]
    assert distance(*states) < 1e-12
    assert not said(caplog)


def test_a_step_of_a_partly_frozen_model_is_one_program(caplog: pytest.LogCaptureFixture) -> None:
    torch._dynamo.reset()
    module = small_model()
    module.body.requires_grad_(False)  # type: ignore[union-attr]
    sim = traced("fedavg", model=module)
    alone = simulate("fedavg", engine=STACKED, federation=EVEN, model=module)
    states = [all_state(one, run_rounds(one, rounds=2)) for one in (sim, alone)]
    assert distance(*states) < 1e-12
    assert not said(caplog)


def test_a_step_of_a_model_with_dropout_is_one_program(caplog: pytest.LogCaptureFixture) -> None:
    torch._dynamo.reset()
    module = small_model(hidden=[6], dropout=0.3)
    sim = traced("fedavg", model=module)
    alone = simulate("fedavg", engine=STACKED, federation=EVEN, model=module)
    states = [all_state(one, run_rounds(one, rounds=2)) for one in (sim, alone)]
    assert distance(*states) < 1e-12
    assert not said(caplog)


def test_a_step_that_cannot_be_compiled_runs_as_it_is_and_says_so(caplog: pytest.LogCaptureFixture) -> None:
    def adjust(direction: Params, slot: Tree, seen: Step) -> tuple[Params, Tree]:
        torch._dynamo.graph_break()
        return direction, slot

    method = Method((*build_method("fedavg").parts, Part("talkative", adjust=adjust)))
    sim, alone = traced(method), simulate("fedavg", engine=STACKED, federation=EVEN)
    assert distance(run_rounds(sim).params, run_rounds(alone).params) == 0
    (warning,) = said(caplog)  # once, not in every step
    assert "cannot be compiled and runs uncompiled: " in warning


def test_a_process_may_compile_many_steps(caplog: pytest.LogCaptureFixture) -> None:
    torch._dynamo.reset()
    for seed in range(10):  # torch's own limit is 8
        run_rounds(traced("fedavg", seed=seed), rounds=1)
    assert not said(caplog)
