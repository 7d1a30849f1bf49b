"""The same numbers on a GPU; run where there is one (`make test-cuda`)."""

from __future__ import annotations

from pathlib import Path

import pytest
import torch

from counterpoise.api import load_data
from counterpoise.core.local import Local
from counterpoise.core.method import METHODS, MethodSpec
from counterpoise.core.tree import leaves, subtract, tmap
from counterpoise.data.federation import Federation
from counterpoise.data.prepare import split_federation
from counterpoise.engines.choose import EngineSettings
from counterpoise.experiment.config import make_experiment
from counterpoise.experiment.runner import resume, start
from counterpoise.models.model import MODELS
from counterpoise.rounds import ServerState
from counterpoise.simulation import build_simulation

pytestmark = pytest.mark.skipif(not torch.cuda.is_available(), reason="no GPU on this machine")

COMPOSED: list[MethodSpec] = [
    ["mofedsam", "balanced_softmax"],
    ["fedavg", "ldam", "deferred_reweighting", "balanced_sampler"],
]


@pytest.fixture(scope="module")
def federation() -> Federation:
    return split_federation(load_data("digits", imbalance=10.0), "dirichlet", 6, alpha=0.5, seed=1)


def run(
    federation: Federation,
    method: MethodSpec,
    engine: EngineSettings,
    dtype: torch.dtype,
    model: str = "mlp",
    **arguments: object,
) -> ServerState:
    module = MODELS.build(model, arguments)(federation.input_shape, len(federation.classes))
    local = Local(lr=0.05, batch_size=16, momentum=0.5, batching="wrap")
    simulation = build_simulation(
        federation,
        method,
        module,
        rounds=3,
        local=local,
        cohort=4,
        engine=engine,
        dtype=dtype,
        draw_parameters=True,
    )
    *_, (state, _) = simulation.run()
    return state


def distance(one: ServerState, other: ServerState) -> float:
    pairs = ({"params": s.params, "buffers": tmap(lambda b: b.double(), s.buffers)} for s in (one, other))
    first, second = (tmap(lambda leaf: leaf.cpu(), tree) for tree in pairs)
    return max(float(leaf.abs().max()) for leaf in leaves(subtract(first, second)))


@pytest.mark.parametrize("method", [*METHODS.names(), *COMPOSED], ids=str)
def test_stacked_on_a_gpu_equals_the_loop_on_a_cpu(federation: Federation, method: MethodSpec) -> None:
    reference = run(federation, method, EngineSettings("loop", "cpu"), torch.float64)
    found = run(federation, method, EngineSettings("stacked", "cuda"), torch.float64)
    assert distance(reference, found) < 1e-8


@pytest.mark.parametrize("norm", ["batch", "group"])
def test_convolutions_with_norms_agree(federation: Federation, norm: str) -> None:
    reference = run(
        federation, "fedavg", EngineSettings("loop", "cpu"), torch.float64, "resnet8", norm=norm, width=8
    )
    found = run(
        federation, "fedavg", EngineSettings("stacked", "cuda"), torch.float64, "resnet8", norm=norm, width=8
    )
    assert distance(reference, found) < 1e-8


@pytest.mark.parametrize("method", ["fedavg", "scaffold", "fedsam"])
def test_a_compiled_step_agrees(federation: Federation, method: str) -> None:
    plain = run(federation, method, EngineSettings("stacked", "cuda"), torch.float64)
    compiled = run(federation, method, EngineSettings("stacked", "cuda", compile=True), torch.float64)
    assert distance(plain, compiled) < 1e-8


def test_a_run_repeats_and_resumes_bit_for_bit(tmp_path: Path) -> None:
    experiment = make_experiment(
        {
            "rounds": 4,
            "method": "scaffold",
            "partition": {"clients": 6, "alpha": 0.5},
            "engine": {"device": "cuda"},
        }
    )
    first = start(experiment, tmp_path / "one")
    second = start(experiment, tmp_path / "two")
    assert first["device"].startswith("cuda")
    assert first["engine"] == "stacked"
    assert first["state_sha256"] == second["state_sha256"]
    newest = sorted((tmp_path / "two" / "checkpoints").glob("round-*.json"))[-1]
    newest.unlink()
    assert resume(tmp_path / "two")["state_sha256"] == first["state_sha256"]
