"""Frozen parameters belong to the model: every engine agrees, and they are never sent, averaged or put into a checkpoint."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest
import torch
from federations import (
    COMPOSITIONS,
    LOOP,
    STACKED,
    all_state,
    distance,
    fingerprint,
    run_rounds,
    simulate,
    small_model,
    spec_name,
    unequal_federation,
)
from runs import result, tiny
from safetensors.torch import load_file
from torch import Tensor, nn

from counterpoise.api import simulate as simulate_from_python
from counterpoise.core.local import Local
from counterpoise.core.method import MethodSpec
from counterpoise.core.rng import generator
from counterpoise.engines.choose import EngineSettings
from counterpoise.errors import ConfigError
from counterpoise.models.init import initialise
from counterpoise.models.model import MODELS
from counterpoise.run.assemble import load_federation
from counterpoise.run.joined import join, share_samples
from counterpoise.run.runner import resume, start
from counterpoise.run.simulation import Simulation
from counterpoise.run.store.checkpoint import CheckpointStore

CLOSE = 1e-8
IMAGE = (2, 6, 6)
SPECS: list[MethodSpec] = ["fedavg", "scaffold", "fedsam", *COMPOSITIONS[:4]]
HEAD = 6 * 4 + 4  # numbers of the small model's head: 6 features, 4 classes
DOUBLE = 8  # bytes


def _frozen(module: nn.Module) -> nn.Module:
    for parameter in module.body.parameters():  # type: ignore[union-attr]
        parameter.requires_grad_(False)
    return module


def _with_frozen_body(spec: MethodSpec, engine: EngineSettings = LOOP) -> Simulation:
    return simulate(spec, model=_frozen(small_model()), engine=engine)


@pytest.mark.parametrize("spec", SPECS, ids=spec_name)
def test_stacked_equals_loop_with_a_frozen_body(spec: MethodSpec) -> None:
    alone, stacked = _with_frozen_body(spec), _with_frozen_body(spec, replace(STACKED, chunk=2))
    expected = all_state(alone, run_rounds(alone))
    assert distance(expected, all_state(stacked, run_rounds(stacked))) < CLOSE


def test_stacked_equals_loop_with_a_frozen_convolutional_body_whose_statistics_move() -> None:
    states = []
    for engine in (LOOP, replace(STACKED, chunk=2)):
        model = _frozen(small_model("resnet8", IMAGE, norm="batch", width=2))
        local = Local(lr=0.05, batch_size=16, batching="wrap")
        given = {"federation": unequal_federation(IMAGE), "model": model, "local": local}
        sim = simulate("fedavg", engine=engine, rounds=2, **given)  # type: ignore[arg-type]
        before, after = sim.open(), run_rounds(sim)
        assert set(after.params) == {"head.weight", "head.bias"}
        assert distance(before.buffers, after.buffers) > 0.01
        states.append(all_state(sim, after))
    assert distance(*states) < CLOSE


@pytest.mark.parametrize("spec", SPECS[:4], ids=spec_name)
def test_worker_processes_equal_the_loop_bit_for_bit_with_a_frozen_body(spec: MethodSpec) -> None:
    alone, workers = _with_frozen_body(spec), _with_frozen_body(spec, replace(LOOP, processes=2))
    try:
        assert fingerprint(alone, run_rounds(alone)) == fingerprint(workers, run_rounds(workers))
    finally:
        workers.close()


def test_a_frozen_body_stays_as_it_was_and_the_head_learns() -> None:
    sim = _with_frozen_body("fedavg")
    first, last = sim.open(), run_rounds(sim)
    before, after = sim.module(first), sim.module(last)
    assert distance(dict(before.body.state_dict()), dict(after.body.state_dict())) == 0  # type: ignore[union-attr]
    assert distance(dict(before.head.state_dict()), dict(after.head.state_dict())) > 0.01  # type: ignore[union-attr]


def test_a_round_sends_only_what_is_trained() -> None:
    sim = _with_frozen_body("fedavg")
    _, outcome = sim.advance(sim.open())
    assert outcome.bytes_down == outcome.bytes_up == 3 * HEAD * DOUBLE  # three clients


def test_runs_with_other_frozen_parameters_cannot_share_a_program() -> None:
    shared = simulate("fedavg").work.federation

    def one(seed: int, module: nn.Module) -> Simulation:
        federation = share_samples(shared, unequal_federation())
        return simulate("fedavg", engine=STACKED, seed=seed, federation=federation, model=module)

    with pytest.raises(ConfigError, match="only with the same frozen parameters"):
        join([one(1, _frozen(small_model())), one(2, _frozen(small_model()))])


def test_a_model_without_anything_to_train_is_refused() -> None:
    module = _frozen(small_model())
    module.head.requires_grad_(False)  # type: ignore[union-attr]
    with pytest.raises(ConfigError, match="every parameter of the model is frozen"):
        simulate("fedavg", model=module)


def _own_model(seed: int = 0) -> nn.Module:
    module = MODELS.build("mlp", {"hidden": [8]})(load_federation(tiny()).input_shape, 10)
    initialise(module, generator(seed, "pretrained"))
    return _frozen(module)


def test_a_run_resumes_from_a_checkpoint_that_holds_only_what_is_trained(tmp_path: Path) -> None:
    federation, folder = load_federation(tiny()), tmp_path / "run"
    summary = start(tiny(), folder, federation=federation, model=_own_model())
    found = CheckpointStore(folder / "checkpoints").load()
    assert found is not None
    assert set(found.server["params"]) == {"head.weight", "head.bias"}
    assert "buffers" not in found.server
    assert sum(blob.stat().st_size for blob in (folder / "checkpoints" / "blobs").iterdir()) < 3 * 1024
    (folder / "checkpoints" / "round-00000004.json").unlink()
    assert result(resume(folder, federation=federation, model=_own_model())) == result(summary)


def test_other_frozen_parameters_are_noticed_on_resume(tmp_path: Path) -> None:
    federation, folder = load_federation(tiny()), tmp_path / "run"
    start(tiny(), folder, federation=federation, model=_own_model())
    with pytest.raises(ConfigError, match="the frozen part of the model has changed"):
        resume(folder, federation=federation, model=_own_model(seed=1))


def test_the_saved_model_holds_every_tensor_and_predicts_as_the_run_did(tmp_path: Path) -> None:
    federation, folder = load_federation(tiny()), tmp_path / "run"
    summary = start(tiny(), folder, federation=federation, model=_own_model())
    module = _own_model(seed=1)
    module.load_state_dict(load_file(folder / "model.safetensors"), strict=True)
    assert torch.equal(module.body[1].weight, _own_model().body[1].weight)  # type: ignore[union-attr, index]
    inputs: Tensor = federation.scaling(federation.test.x)
    right = (module.eval()(inputs).argmax(1) == federation.test.y).double().mean()
    assert float(right) == pytest.approx(summary["accuracy"], abs=1e-12)


def test_from_python_a_frozen_module_works_the_same() -> None:
    federation = load_federation(tiny())
    ended = simulate_from_python(federation, "fedavg", _own_model(), rounds=2)
    assert distance(dict(ended.module.model.body.state_dict()), dict(_own_model().body.state_dict())) == 0  # type: ignore[union-attr]
    assert ended["bytes"] == 2 * 4 * 2 * (8 * 10 + 10) * 4  # rounds, clients, there and back, float32
