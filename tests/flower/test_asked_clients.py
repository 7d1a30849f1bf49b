"""Clients over Flower that judge models of others, and the models that they keep for themselves."""

from __future__ import annotations

from pathlib import Path

import pytest

pytest.importorskip("flwr", reason="flwr is not installed: pip install 'counterpoise[flower]'")

import torch
from federations import ask_clients, distance, run_rounds, simulate
from flwr.app import Message, RecordDict
from judged import judged
from local_grid import FIRST_NODE, over_flower

from counterpoise.core.method import MethodSpec
from counterpoise.engines.arithmetic import Precision
from counterpoise.flower.client import ClientContext, answer
from counterpoise.flower.records import unpack_tree
from counterpoise.metrics.scoring import count


def test_clients_judge_over_flower_only_what_they_are_asked_to(tmp_path: Path) -> None:
    alone, (remote, grid) = simulate(judged()), over_flower(judged(), tmp_path)
    found, expected = (ask_clients(sim, sim.open(), [1, 3])[0] for sim in (remote, alone))
    assert distance(found.params, expected.params) == 0
    assert distance(found.slots, expected.slots) == 0
    models = {
        FIRST_NODE - ask.metadata.dst_node_id: len(
            next(iter(unpack_tree(ask.content["models"])["params"].values()))
        )
        for ask in grid.sent
        if "models" in ask.content
    }
    assert sorted(models) == [0, 1, 3, 4, 5]
    assert set(models.values()) == {1}


def test_a_worker_that_does_not_answer_changes_only_its_own_counts(tmp_path: Path) -> None:
    remote, grid = over_flower(judged(), tmp_path)
    state = remote.open()
    whole, _ = ask_clients(remote, state, [1, 3])
    del grid.seats[FIRST_NODE - 4]
    again, _ = ask_clients(remote, state, [1, 3])
    assert again.slots["judged"]["judged"].tolist() == [6, 6]
    assert again.slots["judged"]["hits"][1] == whole.slots["judged"]["hits"][1]


@pytest.mark.parametrize("spec", ["ditto", "fedrod"], ids=str)
def test_own_models_are_measured_over_flower_without_leaving_the_client(
    spec: MethodSpec, tmp_path: Path
) -> None:
    alone, (remote, _) = simulate(spec), over_flower(spec, tmp_path)
    states = run_rounds(alone), run_rounds(remote)
    assert distance(states[0].params, states[1].params) == 0
    found, expected = (
        sim.engine.measure_own(range(6), state.params, state.buffers, count)
        for sim, state in zip((remote, alone), states, strict=True)
    )
    assert distance(found, expected) == 0
    shared = simulate("fedavg").engine.measure_own(range(6), states[0].params, {}, count)
    assert not torch.equal(found["cross_entropies"], shared["cross_entropies"])


@pytest.mark.parametrize("precision", ["full", "tf32"])
def test_a_client_computes_in_the_precision_of_the_run_and_repeatably(
    precision: Precision, tmp_path: Path
) -> None:
    """On a GPU torch's own setting is TF32 for convolutions, by kernels that may differ from call to call."""
    seen = []

    def handler(context: ClientContext, content: RecordDict) -> RecordDict:
        seen.append((torch.backends.cudnn.allow_tf32, torch.backends.cudnn.deterministic))
        return RecordDict()

    context = ClientContext("0", 0, simulate("fedavg").work, tmp_path, precision=precision)
    over_flower("fedavg", tmp_path)  # the sender of a message is known within a run only
    answer(Message(RecordDict(), 1, "train"), lambda: context, handler)
    assert seen == [(precision == "tf32", True)]
