"""Every method and part gives the same run client by client, stacked in any chunks, and in worker processes."""

from __future__ import annotations

from dataclasses import replace

import pytest
from federations import (
    COMPOSITIONS,
    LOOP,
    SEED,
    STACKED,
    all_state,
    distance,
    every_spec,
    fingerprint,
    method_specs,
    run_rounds,
    simulate,
    small_model,
    spec_name,
    unequal_federation,
)

from counterpoise.contracts.agreement import (
    CLOSE,
    final_state,
    processes_equal_loop,
    second_build_repeats,
    second_run_repeats,
    stacked_equals_loop,
)
from counterpoise.core.local import Local, factor
from counterpoise.core.method import MethodSpec
from counterpoise.core.tree import Tree
from counterpoise.engines.choose import EngineSettings

LOCALS = {
    "momentum": Local(lr=0.1, batch_size=12, momentum=0.9),
    "coupled decay": Local(lr=0.1, batch_size=12, momentum=0.5, weight_decay=0.05),
    "decoupled decay": Local(lr=0.1, batch_size=12, momentum=0.5, weight_decay=0.05, decoupled=True),
    "clip": Local(lr=0.3, batch_size=12, clip=0.2, schedule=factor(0.5)),
    "two epochs": Local(lr=0.1, batch_size=20, epochs=2),
    "wrap": Local(lr=0.1, batch_size=12, batching="wrap"),
    "drop": Local(lr=0.1, batch_size=12, batching="drop"),
}
IMAGE = (2, 6, 6)


def _image_state(spec: MethodSpec, engine: EngineSettings, norm: str, local: Local) -> Tree:
    federation = unequal_federation(IMAGE)
    model = small_model("resnet8", IMAGE, norm=norm, width=2)
    sim = simulate(spec, engine=engine, local=local, federation=federation, model=model, rounds=2)
    return all_state(sim, run_rounds(sim))


def test_cohorts_change_and_reach_every_client() -> None:
    sim = simulate("fedavg")
    samples = sim.work.federation.samples()
    cohorts = [sim.cohort.draw(sim.seed, t, samples) for t in range(3)]
    assert cohorts == [[0, 1, 3], [2, 3, 4], [1, 3, 5]]


@pytest.mark.parametrize("spec", every_spec(), ids=spec_name)
def test_stacked_equals_loop_in_chunks_of_any_size(spec: MethodSpec) -> None:
    stacked_equals_loop(spec)


@pytest.mark.parametrize("local", LOCALS.values(), ids=LOCALS)
@pytest.mark.parametrize(
    "spec", ["fednova", "scaffold", "fedwcm_x", COMPOSITIONS[0], COMPOSITIONS[3]], ids=spec_name
)
def test_stacked_equals_loop_under_every_local_optimizer(spec: MethodSpec, local: Local) -> None:
    expected = final_state(spec, LOOP, local)
    assert distance(expected, final_state(spec, replace(STACKED, chunk=2), local)) < CLOSE


@pytest.mark.parametrize("spec", ["fedavg", "scaffold", COMPOSITIONS[1]], ids=spec_name)
def test_stacked_equals_loop_on_a_residual_network_with_group_norm(spec: MethodSpec) -> None:
    local = Local(lr=0.05, batch_size=16)
    expected = _image_state(spec, LOOP, "group", local)
    assert distance(expected, _image_state(spec, replace(STACKED, chunk=2), "group", local)) < CLOSE


@pytest.mark.parametrize("batching", ["wrap", "drop"])
@pytest.mark.parametrize("spec", ["fedavg", "fedsam"], ids=spec_name)
def test_stacked_equals_loop_with_batch_norm_and_its_buffers(spec: MethodSpec, batching: str) -> None:
    local = Local(lr=0.05, batch_size=16, batching=batching)  # type: ignore[arg-type]
    expected = _image_state(spec, LOOP, "batch", local)
    assert any(name.endswith("running_var") for name in expected["buffers"])
    assert distance(expected, _image_state(spec, replace(STACKED, chunk=2), "batch", local)) < CLOSE


@pytest.mark.parametrize("spec", [*method_specs(), *COMPOSITIONS], ids=spec_name)
def test_worker_processes_equal_the_loop_bit_for_bit(spec: MethodSpec) -> None:
    processes_equal_loop(spec)


@pytest.mark.parametrize("spec", [*method_specs(), *COMPOSITIONS], ids=spec_name)
def test_a_second_build_gives_the_same_run_bit_for_bit(spec: MethodSpec) -> None:
    second_build_repeats(spec)


@pytest.mark.parametrize("spec", method_specs(), ids=spec_name)
def test_a_simulation_run_again_from_the_start_gives_the_same_run(spec: MethodSpec) -> None:
    second_run_repeats(spec)


def test_taking_the_trained_module_does_not_change_where_a_run_starts() -> None:
    sim = simulate("fedavg")
    before = sim.open()
    sim.module(run_rounds(sim))
    assert distance(before.params, sim.open().params) == 0


def test_another_seed_gives_another_run() -> None:
    first, second = simulate("fedavg"), simulate("fedavg", seed=SEED + 1)
    assert fingerprint(first, run_rounds(first)) != fingerprint(second, run_rounds(second))
