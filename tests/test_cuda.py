"""On a GPU every method and part gives the run that it gives on a CPU, up to rounding (`make test-cuda`)."""

from __future__ import annotations

from dataclasses import replace
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import pytest
import torch
from federations import (
    GPU,
    GPU_LOOP,
    GPU_STACKED,
    LOOP,
    all_state,
    distance,
    draws_frozen,
    every_spec,
    method_specs,
    run_joined,
    run_rounds,
    simulate,
    small_model,
    spec_name,
    unequal_federation,
)
from norm_models import BUILT, Reading, scored_models
from torch import nn

from counterpoise.client.functional import FunctionalModel
from counterpoise.client.measure import measure_each, measure_many
from counterpoise.core.local import Local
from counterpoise.core.method import MethodSpec
from counterpoise.core.part import Batch, Outputs
from counterpoise.core.tree import Tree, leaves, stack, tmap
from counterpoise.data.dataset import Samples, no_scaling
from counterpoise.engines.arithmetic import Precision
from counterpoise.engines.choose import EngineSettings
from counterpoise.engines.memories import Shelf
from counterpoise.errors import ConfigError
from counterpoise.metrics.scoring import count_all
from counterpoise.run.simulation import evaluate
from counterpoise.server.state import ServerState

pytestmark = pytest.mark.skipif(not torch.cuda.is_available(), reason="no GPU on this machine")

ENGINES = {"loop": GPU_LOOP, "stacked": replace(GPU_STACKED, chunk=2)}
IMAGE = (1, 8, 8)
SEEDS = (46, 3, 5)
WRAPPED = Local(lr=0.05, batch_size=16, momentum=0.5, batching="wrap")
COMPOSED: list[MethodSpec] = [
    ["mofedsam", "balanced_softmax"],
    ["fedavg", "ldam", "deferred_reweighting", "balanced_sampler"],
]


NEEDS_ACCOUNTING = pytest.mark.skipif(
    find_spec("dp_accounting") is None,
    reason="dp_accounting is not installed: pip install 'counterpoise[privacy]'",
)
SPECS = [
    pytest.param(spec, marks=NEEDS_ACCOUNTING) if "dp" in spec_name(spec).split("+") else spec
    for spec in every_spec()
]


def state_of(spec: MethodSpec, engine: EngineSettings, **settings: Any) -> Tree:
    """All that a run comes to."""
    sim = simulate(spec, engine=engine, **settings)
    return all_state(sim, run_rounds(sim))


@pytest.mark.parametrize("engine", ENGINES)
@pytest.mark.parametrize("spec", SPECS, ids=spec_name)
def test_a_run_on_a_gpu_equals_the_run_on_a_cpu(spec: MethodSpec, engine: str) -> None:
    assert distance(state_of(spec, LOOP), state_of(spec, ENGINES[engine])) < 1e-8


@pytest.mark.parametrize("spec", [*method_specs(), *COMPOSED], ids=spec_name)
def test_momentum_and_wrapped_batches_agree(spec: MethodSpec) -> None:
    here, there = (state_of(spec, engine, local=WRAPPED) for engine in (LOOP, GPU_STACKED))
    assert distance(here, there) < 1e-8


@pytest.mark.parametrize("engine", ENGINES)
def test_batch_norm_with_decay_and_clipping_agrees(engine: str) -> None:
    local = Local(lr=0.05, batch_size=12, batching="wrap", momentum=0.9, weight_decay=0.01, clip=1.0)
    here, there = (
        state_of("fedsam", where, model=small_model(hidden=[6], norm="batch"), local=local)
        for where in (LOOP, ENGINES[engine])
    )
    assert distance(here, there) < 1e-8


@pytest.mark.parametrize("engine", [*ENGINES, "compiled"])
def test_dropout_draws_the_same_as_on_a_cpu(engine: str) -> None:
    where = ENGINES.get(engine, replace(GPU_STACKED, compile=True))
    here, there = (
        state_of("scaffold", one, model=small_model(hidden=[6], dropout=0.4)) for one in (LOOP, where)
    )
    assert distance(here, there) < 1e-8


@pytest.mark.parametrize("norm", ["batch", "group"])
def test_convolutions_with_norms_agree(norm: str) -> None:
    federation = unequal_federation(IMAGE)
    here, there = (
        state_of(
            "fedavg",
            engine,
            federation=federation,
            model=small_model("resnet8", IMAGE, norm=norm, width=8),
            local=WRAPPED,
        )
        for engine in (LOOP, GPU_STACKED)
    )
    assert distance(here, there) < 1e-8


@pytest.mark.parametrize("method", ["fedavg", "scaffold", "fedsam"])
def test_a_compiled_step_agrees(method: str) -> None:
    plain, compiled = (
        state_of(method, engine, local=WRAPPED)
        for engine in (GPU_STACKED, replace(GPU_STACKED, compile=True))
    )
    assert distance(plain, compiled) < 1e-8


def test_a_run_repeats_and_resumes_bit_for_bit(tmp_path: Path) -> None:
    from counterpoise.run.config.experiment import make_experiment
    from counterpoise.run.runner import resume, start

    experiment = make_experiment(
        {
            "rounds": 4,
            "method": "scaffold",
            "partition": {"clients": 6, "alpha": 0.5},
            "engine": {"device": GPU},
        }
    )
    first = start(experiment, tmp_path / "one")
    second = start(experiment, tmp_path / "two")
    assert first["device"].startswith(GPU)
    assert first["engine"] == "stacked"
    assert first["state_sha256"] == second["state_sha256"]
    newest = sorted((tmp_path / "two" / "checkpoints").glob("round-*.json"))[-1]
    newest.unlink()
    assert resume(tmp_path / "two")["state_sha256"] == first["state_sha256"]


@pytest.mark.parametrize("spec", SPECS, ids=spec_name)
def test_a_state_that_comes_back_from_disk_onto_the_gpu_goes_on_alike(spec: MethodSpec) -> None:
    whole, resumed = (simulate(spec, engine=GPU_STACKED) for _ in range(2))
    middle = run_rounds(whole, rounds=2)
    saved = tmap(lambda leaf: leaf.to(GPU), all_state(whole, middle))
    resumed.engine.memory.update({int(client): kept for client, kept in saved["memory"].items()})
    state = ServerState.from_tree(saved, round=2)
    expected, found = run_rounds(whole, middle, 1), run_rounds(resumed, state, 1)
    assert distance(all_state(whole, expected), all_state(resumed, found)) == 0


@pytest.mark.parametrize("engine", ENGINES)
def test_memory_that_the_gpu_has_no_room_for_waits_on_the_host(engine: str) -> None:
    near, far = simulate("scaffold", engine=ENGINES[engine]), simulate("scaffold", engine=ENGINES[engine])
    shelves = far.engine.memory._shelves = Shelf(lambda: 0, 100), Shelf(lambda: 0, 1 << 20)
    ends = [all_state(sim, run_rounds(sim)) for sim in (near, far)]
    assert len(shelves[0]._entries) == 1
    waiting = [leaf.device.type for kept in shelves[1]._entries.values() for leaf in leaves(kept)]
    assert waiting
    assert set(waiting) == {"cpu"}
    assert far.engine.memory._folder is None
    assert distance(*ends) == 0


@pytest.mark.parametrize("spec", ["fedavg", "fedcgnm"])
def test_convolutions_as_products_agree_when_compiled(spec: str) -> None:
    federation = unequal_federation(IMAGE)
    plain, compiled = (
        state_of(
            spec,
            engine,
            federation=federation,
            model=small_model("resnet8", IMAGE, norm="group", width=4),
            local=WRAPPED,
        )
        for engine in (GPU_STACKED, replace(GPU_STACKED, compile=True))
    )
    assert distance(plain, compiled) < 1e-8


@pytest.mark.parametrize("spec", [*SPECS, ["fedcgnm", "fedhoo"]], ids=spec_name)
def test_seeds_together_equal_each_alone(spec: MethodSpec) -> None:
    shared = unequal_federation().to(GPU, torch.float64)
    if draws_frozen(spec):
        with pytest.raises(ConfigError, match="only with the same frozen parameters"):
            run_joined(spec, GPU_STACKED, SEEDS, shared)
        return
    together, states = run_joined(spec, GPU_STACKED, SEEDS, shared)
    scores = evaluate(together, states)
    for sim, state, score, seed in zip(together, states, scores, SEEDS, strict=True):
        alone = simulate(spec, seed=seed)
        end = run_rounds(alone)
        assert distance(all_state(sim, state), all_state(alone, end)) < 1e-8
        assert score["per_class_recall"] == alone.evaluate(end)["per_class_recall"]


def lower_precision(norm: str, **settings: Any) -> dict[str, Any]:
    """A ResNet in float32, which is what lower precisions are for."""
    return {
        "federation": unequal_federation(IMAGE),
        "model": small_model("resnet8", IMAGE, norm=norm, width=8),
        "local": WRAPPED,
        "dtype": torch.float32,
    } | settings


@pytest.mark.parametrize("norm", ["batch", "group"])
@pytest.mark.parametrize("precision", ["tf32", "bf16"])
def test_lower_precision_is_near_and_repeats_bit_for_bit(precision: Precision, norm: str) -> None:
    settings = lower_precision(norm)
    exact = state_of("fedavg", GPU_STACKED, **settings)["params"]
    once, again = (
        state_of("fedavg", replace(GPU_STACKED, precision=precision), **settings) for _ in range(2)
    )
    assert distance(once, again) == 0
    assert 0 < distance(exact, once["params"]) < 0.1


def with_torchs_own_norm() -> nn.Module:
    return nn.Sequential(nn.Conv2d(1, 8, 3), nn.BatchNorm2d(8), nn.ReLU(), nn.Flatten(), nn.Linear(288, 4))


HALF = {
    "loop": replace(GPU_LOOP, precision="bf16"),
    "compiled": replace(GPU_STACKED, precision="bf16", compile=True),
}


@pytest.mark.parametrize("whose", ["ours", "torch's"])
@pytest.mark.parametrize("way", HALF)
def test_batch_norm_in_bfloat16_is_the_same_every_way(way: str, whose: str) -> None:
    own = {} if whose == "ours" else {"model": with_torchs_own_norm()}
    settings = lower_precision("batch", **own)
    stacked, other = (
        state_of("fedavg", engine, **settings)
        for engine in (replace(GPU_STACKED, precision="bf16"), HALF[way])
    )
    assert distance(stacked["params"], other["params"]) < 0.1
    for name, buffer in stacked["buffers"].items():
        assert buffer.dtype in (torch.float32, torch.int64)
        torch.testing.assert_close(other["buffers"][name], buffer, rtol=0.05, atol=0.05)


def test_bfloat16_from_float64_is_refused() -> None:
    with pytest.raises(ConfigError, match=r"'full' or 'tf32' with torch\.float64, not 'bf16'"):
        simulate("fedavg", engine=replace(GPU_STACKED, precision="bf16"))


@pytest.mark.parametrize("name", [name for name in BUILT if "no running" not in name])
def test_models_with_batch_norm_are_scored_side_by_side(name: str) -> None:
    given, calls = scored_models(name, GPU), list[str]()

    def counted(outputs: Outputs, batch: Batch) -> Tree:
        calls.append(name)
        return count_all(outputs, batch)

    assert distance(measure_many(*given, counted), measure_each(*given)) < 1e-9
    assert len(calls) == 2  # nine models, eight of them side by side


def test_a_model_that_does_not_stack_is_scored_one_by_one() -> None:
    model = FunctionalModel(nn.Sequential(nn.Linear(5, 4), Reading()).to(GPU))
    samples = Samples(torch.ones(8, 5, device=GPU), torch.zeros(8, dtype=torch.int64, device=GPU))
    scaling = no_scaling().to(torch.device(GPU))
    models = stack([model.params(), model.params()])
    assert measure_many(model, models, {}, samples, scaling)["confusion"].sum((1, 2)).tolist() == [8, 8]


def test_the_process_keeps_its_own_precision() -> None:
    before = torch.backends.cuda.matmul.allow_tf32, torch.backends.cudnn.allow_tf32
    simulation = simulate("fedavg", engine=replace(GPU_STACKED, precision="tf32"), dtype=torch.float32)
    run_rounds(simulation, rounds=1)
    assert (torch.backends.cuda.matmul.allow_tf32, torch.backends.cudnn.allow_tf32) == before
