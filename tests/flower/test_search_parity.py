"""A search over messages: several trainings in one message, scores from clients, and the run of the loop bit for bit."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

pytest.importorskip("flwr", reason="flwr is not installed: pip install 'counterpoise[flower]'")

from federations import run_rounds, simulate, spec_name, unequal_federation
from local_grid import over_flower

from counterpoise.core.codec import digest
from counterpoise.core.local import Local
from counterpoise.core.method import MethodSpec
from counterpoise.server.state import ServerState

QUICK = Local(lr=0.5, batch_size=12)
SEARCHES: list[MethodSpec] = [
    ["fedavg", {"fedhoo": {"warmup": 1}}],
    ["fedcgnm", {"fedhoo": {"warmup": 0, "clusters": 2, "selection": "optimistic"}}],
    ["fedprox", {"hoo": {"warmup": 1, "clusters": 2}}],
]


def _digest(state: ServerState) -> str:
    return digest({"params": state.params, "slots": state.slots})


@pytest.mark.parametrize("spec", SEARCHES, ids=spec_name)
def test_messages_equal_the_loop_bit_for_bit(spec: MethodSpec, tmp_path: Path) -> None:
    alone, (remote, grid) = simulate(spec, local=QUICK), over_flower(spec, tmp_path, local=QUICK)
    state, hellos = remote.open(), len(grid.sent)
    state, outcome = remote.advance(state)
    assert len(grid.sent) == hellos + 6  # one message a client, however many trainings
    assert (outcome.asked, outcome.tasks) == (6, 6 if "hoo" in state.slots else 12)
    assert _digest(run_rounds(remote, state, 2)) == _digest(run_rounds(alone))


def test_clients_score_the_mixtures_where_the_server_has_no_samples(tmp_path: Path) -> None:
    settings: dict[str, Any] = {"federation": replace(unequal_federation(), validation=None), "local": QUICK}
    spec: MethodSpec = ["fedavg", {"fedhoo": {"warmup": 0, "clusters": 2}}]
    alone, (remote, grid) = simulate(spec, **settings), over_flower(spec, tmp_path, **settings)
    state, hellos = remote.open(), len(grid.sent)
    state, _ = remote.advance(state)
    assert len(grid.sent) == hellos + 6 + 6  # a training and a measurement each
    assert _digest(run_rounds(remote, state, 2)) == _digest(run_rounds(alone))


def test_a_client_that_does_not_answer_costs_the_round_and_nothing_else(tmp_path: Path) -> None:
    remote, grid = over_flower(SEARCHES[0], tmp_path, local=QUICK)
    before = run_rounds(remote, rounds=2)
    grid.alter = lambda replies: replies[1:]
    after, outcome = remote.advance(before)
    assert outcome.skipped
    assert outcome.replied == 5
    assert _digest(after) == _digest(before)
