"""Clients asked by messages give the same run as clients in this process, bit for bit: every method, every part."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

pytest.importorskip("flwr", reason="flwr is not installed: pip install 'counterpoise[flower]'")

import torch
from federations import (
    COMPOSITIONS,
    every_spec,
    run_rounds,
    simulate,
    small_model,
    spec_name,
    unequal_federation,
)
from flwr.app import Message
from local_grid import FIRST_NODE, over_flower

from counterpoise.contracts.local_grid import messages_equal_loop
from counterpoise.core.codec import digest
from counterpoise.core.local import Local
from counterpoise.core.messages import Broadcast, Task
from counterpoise.core.method import MethodSpec
from counterpoise.core.part import Pair
from counterpoise.core.tree import tmap
from counterpoise.flower.records import pack_tree, unpack_tree
from counterpoise.flower.server import KEPT
from counterpoise.metrics.scoring import count
from counterpoise.server.state import ServerState


def _digest(state: ServerState) -> str:
    return digest({"params": state.params, "buffers": state.buffers, "slots": state.slots})


@pytest.mark.parametrize("spec", every_spec(), ids=spec_name)
def test_records_equal_the_loop_bit_for_bit(spec: MethodSpec) -> None:
    messages_equal_loop(spec)


def test_adam_travels_too(tmp_path: Path) -> None:
    settings = {"local": Local(optimizer="adamw", lr=0.01, batch_size=12, weight_decay=0.1), "rounds": 2}
    alone, (remote, _) = simulate("feddyn", **settings), over_flower("feddyn", tmp_path, **settings)
    assert _digest(run_rounds(remote)) == _digest(run_rounds(alone))


@pytest.mark.parametrize("spec", ["fedavg", "scaffold", COMPOSITIONS[1]], ids=spec_name)
def test_buffers_and_float32_travel_too(spec: MethodSpec, tmp_path: Path) -> None:
    shape = (2, 6, 6)
    settings = {
        "federation": unequal_federation(shape),
        "model": small_model("resnet8", shape, norm="batch", width=2),
        "local": Local(lr=0.05, batch_size=16, batching="wrap"),
        "dtype": torch.float32,
        "rounds": 2,
    }
    alone, (remote, _) = simulate(spec, **settings), over_flower(spec, tmp_path, **settings)
    state = run_rounds(remote)
    assert any(b.dtype == torch.int64 for b in state.buffers.values())
    assert _digest(state) == _digest(run_rounds(alone))


def test_a_client_gets_one_message_a_round(tmp_path: Path) -> None:
    remote, grid = over_flower("scaffold", tmp_path)
    state, hellos = remote.open(), len(grid.sent)
    remote.advance(state)
    assert len(grid.sent) == hellos + 3
    assert hellos == 6


def test_several_trainings_of_one_client_travel_in_one_message(tmp_path: Path) -> None:
    alone, (remote, grid) = simulate("scaffold"), over_flower("scaffold", tmp_path)
    tasks = [Task(1), Task(1, {"rate": 0.5}), Task(4), Task(1, {"rate": 0.25})]
    tasks = [Task(task.client, {"rate": 1.0, **task.knobs}) for task in tasks]
    replies = []
    for sim in (alone, remote):
        state = sim.open()
        before = len(grid.sent)
        shared = {"control_variates": state.slots["control_variates"]}
        found = sim.engine.train(tasks, Broadcast(0, 0.1, state.params, state.buffers, shared))
        order = found.client.argsort(stable=True)
        replies.append(digest(tmap(lambda leaf, order=order: leaf[order], found._asdict())))
    assert len(grid.sent) == before + 2
    assert replies[0] == replies[1]


PAIRS = [Pair(0, 1), Pair(3, 0), Pair(5, 1), Pair(0, 0)]  # clients that judge one model or both


def test_stacked_models_are_measured_on_what_clients_hold_out(tmp_path: Path) -> None:
    alone, (remote, _) = simulate("fedavg"), over_flower("fedavg", tmp_path)
    states = [alone.open(), run_rounds(alone)]
    models = {name: torch.stack([s.params[name] for s in states]) for name in states[0].params}
    expected = alone.engine.measure(PAIRS, models, {}, count)
    assert digest(remote.engine.measure(PAIRS, models, {}, count)) == digest(expected)


def test_the_server_keeps_names_of_memory_and_no_memory(tmp_path: Path) -> None:
    remote, _ = over_flower("scaffold", tmp_path)
    run_rounds(remote)
    kept = list(remote.engine.memory.values())
    assert kept
    assert all(set(memory) == {KEPT} and memory[KEPT]["token"].shape == (32,) for memory in kept)


def test_clients_note_the_same_digest_unless_the_server_sends_one_of_them_another_model(
    tmp_path: Path,
) -> None:
    remote, _ = over_flower("fedavg", tmp_path, cohort=None)
    state = run_rounds(remote, rounds=1)
    assert len(_noted(tmp_path, 0)) == 1
    engine: Any = remote.engine
    for client in (0, 1):
        other = tmap(lambda leaf, client=client: leaf + client, state.params)
        engine.train([Task(client)], Broadcast(1, 0.1, other, {}, {}))
    assert len(_noted(tmp_path, 1)) == 2


def _noted(path: Path, round: int) -> set[str]:
    rows = [json.loads(line) for p in path.rglob("received.jsonl") for line in p.read_text().splitlines()]
    return {row["sha256"] for row in rows if row["round"] == round}


def test_a_model_altered_on_the_way_is_refused_by_the_client(tmp_path: Path) -> None:
    remote, grid = over_flower("fedavg", tmp_path, cohort=None)
    state = remote.open()

    def alter(ask: Message) -> None:
        if ask.metadata.dst_node_id == FIRST_NODE - 2:
            tree = unpack_tree(ask.content["model"])
            ask.content["model"] = pack_tree(tmap(lambda leaf: leaf + 1e-9, tree))

    grid.before = alter
    _, outcome = remote.advance(state)
    assert [(r.client, r.reason) for r in outcome.rejected] == [(2, "sha256")]
