"""Frozen parameters over Flower: never sent, the same run bit for bit, and a client with other ones is refused."""

from __future__ import annotations

import shutil
from dataclasses import replace
from pathlib import Path

import pytest

pytest.importorskip("flwr", reason="flwr is not installed: pip install 'counterpoise[flower]'")

import torch
from federations import run_rounds, simulate, small_model, spec_name
from local_grid import FIRST_NODE, over_flower, seats_of
from local_net import numbered
from runs import tiny
from torch import nn

from counterpoise.core.codec import digest
from counterpoise.core.method import MethodSpec
from counterpoise.core.part import Pair
from counterpoise.flower.job import job_settings
from counterpoise.flower.records import unpack_tree
from counterpoise.flower.refusal import Refused
from counterpoise.metrics.scoring import count
from counterpoise.run.config.experiment import parse_experiment
from counterpoise.run.runner import start
from counterpoise.server.state import ServerState


def _frozen() -> nn.Module:
    module = small_model()
    module.body.requires_grad_(False)  # type: ignore[union-attr]
    return module


def _digest(state: ServerState) -> str:
    return digest({"params": state.params, "buffers": state.buffers, "slots": state.slots})


@pytest.mark.parametrize("spec", ["fedavg", "scaffold", ["mofedsam", "focal"]], ids=spec_name)
def test_records_equal_the_loop_bit_for_bit_with_a_frozen_body(spec: MethodSpec, tmp_path: Path) -> None:
    alone = simulate(spec, model=_frozen())
    remote, grid = over_flower(spec, tmp_path, model=_frozen())
    assert _digest(run_rounds(remote)) == _digest(run_rounds(alone))
    sent = [unpack_tree(ask.content["model"]) for ask in grid.sent if "model" in ask.content]
    assert sent
    assert all(set(tree["params"]) == {"head.weight", "head.bias"} for tree in sent)
    assert not any("buffers" in tree for tree in sent)


def test_a_client_whose_frozen_parameters_differ_is_refused(tmp_path: Path) -> None:
    remote, grid = over_flower("fedavg", tmp_path, cohort=None, model=_frozen())
    other = seats_of(simulate("fedavg", model=_frozen(), seed=1).work, tmp_path)
    grid.seats[FIRST_NODE - 2] = other[FIRST_NODE - 2]
    state = remote.open()
    _, outcome = remote.advance(state)
    assert [(r.client, r.reason) for r in outcome.rejected] == [(2, "frozen")]
    models = {name: torch.stack([p]) for name, p in state.params.items()}
    sums = remote.engine.measure([Pair(1, 0), Pair(2, 0)], models, {}, count)
    assert sums["confusion"][0].sum() == 3  # what a client holds out
    assert sums["confusion"][1].sum() == 0


def test_a_client_uses_its_own_copy_of_the_weights_and_is_refused_without_one(tmp_path: Path) -> None:
    start(tiny("seed=3"), tmp_path / "given")
    weights = tmp_path / "given" / "model.safetensors"
    config = tiny("cohort={}", 'model.freeze=["body.*"]', f'model.weights="{weights}"')
    copy = shutil.copy(weights, tmp_path / "copy.safetensors")
    net = numbered(tmp_path, 4)
    for name, own in net.clients.items():
        net.clients[name] = replace(own, weights=str(copy))
    expected = start(config, tmp_path / "alone")
    assert net.run(config, tmp_path / "run")["params_sha256"] == expected["params_sha256"]
    with pytest.raises(Refused, match="weights"):
        numbered(tmp_path, 4).context("0", job_settings(config, "run", 4, "0" * 64, ""))()


def test_of_the_weights_clients_are_told_the_name_and_only_where_they_need_the_file(tmp_path: Path) -> None:
    path = f'model.weights="{tmp_path / "secret" / "w.safetensors"}"'

    def told(*assignments: str) -> str | None:
        text = str(job_settings(tiny(path, *assignments), "run", 4, "0" * 64, "")["experiment"])
        assert "secret" not in text
        return parse_experiment(text).model.weights

    assert told() is None
    assert told('model.head="cosine"') is None
    assert told('model.head="etf"') == "w.safetensors"
    assert told('model.freeze=["body.*"]') == "w.safetensors"
