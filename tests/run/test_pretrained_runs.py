"""Runs that start from given weights, train a part of the model, and have another head."""

from __future__ import annotations

import json
import logging
from pathlib import Path

import pytest
import torch
from federations import LOOP, STACKED, all_state, distance, run_rounds, simulate, small_model
from runs import assert_refused, call, result, tiny, write_tiny
from safetensors.torch import load_file, save_file

from counterpoise.errors import ConfigError
from counterpoise.run.assemble import assemble
from counterpoise.run.build import build_simulation
from counterpoise.run.config.experiment import make_experiment
from counterpoise.run.runner import resume, start
from counterpoise.run.store.folder import RunFolder

BODY = 'model.freeze=["body.*"]'
WIDE = "model.hidden=[16]"


@pytest.fixture
def given(tmp_path: Path) -> Path:
    """The model of a run, as the practitioner finds it."""
    start(tiny("seed=3", WIDE), tmp_path / "given")
    return tmp_path / "given" / "model.safetensors"


def test_a_run_goes_on_from_the_model_of_another(given: Path, tmp_path: Path) -> None:
    sim = assemble(tiny(WIDE, f'model.weights="{given}"'))
    assert distance(sim.open().params, load_file(given)) == 0
    summary = start(tiny(WIDE, f'model.weights="{given}"'), tmp_path / "run")
    assert summary["params_sha256"] != start(tiny(WIDE), tmp_path / "drawn")["params_sha256"]
    record = json.loads((tmp_path / "run" / "record.json").read_bytes())
    assert len(record["weights_sha256"]) == 64
    assert "frozen_parameters" not in record


def test_only_the_head_is_trained_on_a_frozen_pretrained_body(given: Path, tmp_path: Path) -> None:
    summary = start(tiny(WIDE, BODY, f'model.weights="{given}"'), tmp_path / "run")
    before, after = load_file(given), load_file(tmp_path / "run" / "model.safetensors")
    assert before.keys() == after.keys()
    changed = {name for name in before if not torch.equal(before[name], after[name])}
    assert changed == {"head.weight", "head.bias"}
    assert summary["bytes"] == 4 * 2 * 2 * (16 * 10 + 10) * 4  # rounds, clients, there and back, float32
    record = json.loads((tmp_path / "run" / "record.json").read_bytes())
    assert (record["parameters"], record["frozen_parameters"]) == (16 * 10 + 10, 64 * 16 + 16)


def test_a_frozen_run_resumes_unless_its_weights_changed(given: Path, tmp_path: Path) -> None:
    folder = tmp_path / "run"
    summary = start(tiny(WIDE, BODY, f'model.weights="{given}"'), folder)
    (folder / "checkpoints" / "round-00000004.json").unlink()
    assert result(resume(folder)) == result(summary)
    tensors = load_file(given)
    tensors["body.1.bias"][0] += 1
    save_file(tensors, given)
    with pytest.raises(ConfigError, match="the frozen part of the model has changed"):
        resume(folder)


def test_a_head_that_the_file_lacks_is_drawn_and_a_note_says_so(
    given: Path, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    body = {name: t for name, t in load_file(given).items() if name.startswith("body.")}
    save_file(body, tmp_path / "body.safetensors")
    with caplog.at_level(logging.WARNING, "counterpoise"):
        sim = assemble(tiny(WIDE, f'model.weights="{tmp_path / "body.safetensors"}"'))
    assert "head.weight, head.bias" in caplog.text
    drawn, params = assemble(tiny(WIDE)).open().params, sim.open().params
    assert torch.equal(params["head.weight"], drawn["head.weight"])
    assert torch.equal(params["body.1.weight"], body["body.1.weight"])


def test_a_fixed_head_stays_a_frame_while_the_body_learns(tmp_path: Path) -> None:
    experiment = tiny(WIDE, 'model.head="etf"')
    start(experiment, tmp_path / "run")
    first, last = assemble(experiment), load_file(tmp_path / "run" / "model.safetensors")
    assert set(first.open().params) == {"body.1.weight", "body.1.bias"}
    assert torch.equal(last["head.weight"], first.work.model.frozen()["head.weight"])
    frame = 10 / 9 * (torch.eye(10) - 1 / 10)
    torch.testing.assert_close(last["head.weight"] @ last["head.weight"].T, frame, rtol=0, atol=1e-6)
    assert not torch.equal(last["body.1.weight"], first.open().params["body.1.weight"])
    again = tiny(
        WIDE, 'model.head="etf"', "seed=9", f'model.weights="{tmp_path / "run" / "model.safetensors"}"'
    )
    assert torch.equal(assemble(again).work.model.frozen()["head.weight"], last["head.weight"])


def test_in_double_precision_a_fixed_head_is_exact_and_stacked_equals_loop() -> None:
    states = []
    for engine in (LOOP, STACKED):
        federation = simulate("fedavg").work.federation
        sim = build_simulation(
            federation, "fedavg", small_model(), rounds=3, head="etf", draw_parameters=True,
            local={"lr": 0.1, "batch_size": 12}, engine={"name": engine.name, "device": "cpu", "dtype": "float64"},
        )  # fmt: skip
        weight = sim.work.model.frozen()["head.weight"]
        wanted = 4 / 3 * (torch.eye(4, dtype=torch.float64) - 1 / 4)
        torch.testing.assert_close(weight @ weight.T, wanted, rtol=0, atol=1e-12)
        states.append(all_state(sim, run_rounds(sim)))
    assert distance(*states) < 1e-8


def test_a_cosine_head_is_trained() -> None:
    sim = assemble(tiny('model.head="cosine"'))
    assert set(sim.open().params) == {"body.1.weight", "body.1.bias", "head.weight"}
    logits = sim.module(sim.open())(torch.ones(2, 1, 8, 8)).detach()
    assert float(logits.abs().max()) <= 1


def test_a_head_that_a_method_replaces_is_frozen_too() -> None:
    sim = assemble(tiny('method=["fedavg", "ldam"]', 'model.freeze=["head.*"]'))
    assert set(sim.work.model.frozen()) == {"head.weight"}


def test_the_keys_are_kept_in_the_config_and_left_out_where_they_are_not_given(tmp_path: Path) -> None:
    experiment = tiny(WIDE, BODY, 'model.head="cosine"')
    assert make_experiment(experiment.tables()) == experiment
    start(tiny("rounds=1"), tmp_path / "plain")
    table = RunFolder(tmp_path / "plain").config.read_text().partition("[model]")[2].partition("[")[0]
    assert not any(key in table for key in ("weights", "freeze", "head"))


@pytest.mark.parametrize(
    ("assignments", "code", "words"),
    [
        (['model.freeze=["bdy.*"]'], 2, ("model.freeze: 'bdy.*' fits no parameter", "body.1.bias")),
        (['model.freeze=["*"]'], 2, ("every parameter of the model is frozen",)),
        (['model.freeze="body.*"'], 2, ("model.freeze must be list of a word",)),
        (['model.head="etf"'], 2, ("not 10 classes and 8 features",)),
        ([WIDE, BODY, 'model.head="etf"'], 2, ("every parameter of the model is frozen",)),
        (['method=["fedavg", "tau_norm"]', 'model.freeze=["head.*"]'], 2, ("`head` that is trained",)),
        (["method=fedloge", WIDE, 'model.freeze=["head.*"]'], 2, ("`head` that is trained",)),
        (["method=fedloge", WIDE, 'model.freeze=["head.aux.bias"]'], 2, ("`head` that is trained",)),
        (['method=["fedavg", "crt"]', WIDE, 'model.head="etf"'], 2, ("must have a linear layer `head`",)),
        (['method=["fedavg", "ldam"]', WIDE, 'model.head="etf"'], 2, ("no linear layer named 'head'",)),
        (['model.head="square"'], 2, ("model.head must be 'linear' or 'cosine' or 'etf'",)),
        (['model.weights="nowhere.safetensors"'], 3, ("nowhere.safetensors: no such file",)),
        (["model.weights=3"], 2, ("model.weights must be a word",)),
    ],
)
def test_what_does_not_fit_is_refused_in_one_line(
    assignments: list[str], code: int, words: tuple[str, ...], tmp_path: Path
) -> None:
    path = write_tiny(tmp_path, *assignments)
    assert_refused(call("run", path, "--out", tmp_path / "run"), code, *words)
    assert not (tmp_path / "run").exists()


def test_weights_of_another_width_are_refused_in_one_line(given: Path, tmp_path: Path) -> None:
    path = write_tiny(tmp_path, "model.hidden=[8]", f'model.weights="{given}"')
    shapes = ("'body.1.weight'", "must have the shape [8, 64], not [16, 64]")
    assert_refused(call("run", path, "--out", tmp_path / "run"), 2, *shapes)
