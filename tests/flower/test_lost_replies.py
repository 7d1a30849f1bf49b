"""Replies that are lost on the way, for a thousand rounds: server and clients never disagree on what was kept."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest
import torch

pytest.importorskip("flwr", reason="flwr is not installed: pip install 'counterpoise[flower]'")

from federations import fingerprint
from flwr.app import Message
from local_grid import FIRST_NODE, RUN, LocalGrid, over_flower
from torch import Tensor

from counterpoise.core.rng import generator
from counterpoise.core.tree import Tree, leaves
from counterpoise.flower.memory import DiskMemory
from counterpoise.flower.server import KEPT, RoundPolicy
from counterpoise.run.simulation import Simulation
from counterpoise.server.state import ServerState

DTYPES = {"float64": (torch.float64, 1e-6), "float32": (torch.float32, 1e-4)}


def lose(grid: LocalGrid, rate: float) -> None:
    """From now on each reply is lost with this chance, after its client has trained and kept what it learned."""

    def lost(reply: Message) -> bool:
        client = FIRST_NODE - reply.metadata.src_node_id
        stream = generator(0, "lost", reply.metadata.group_id, client)
        return bool(torch.rand((), generator=stream) < rate)

    grid.alter = lambda replies: [reply for reply in replies if not lost(reply)]


def flat(tree: Tree) -> Tensor:
    return torch.cat([leaf.double().flatten() for leaf in leaves(tree)])


def kept_by(sim: Simulation, client: int, state: Path) -> Tensor | None:
    """What lies on the client's disk under the name that the server would send; None: nothing yet."""
    if client not in sim.engine.memory:
        return None
    token = bytes(sim.engine.memory[client][KEPT]["token"].tolist()).hex()
    kept = DiskMemory(state / f"node-{client}", RUN, str(client)).load(token)
    assert kept is not None
    return flat(kept["control_variates"])


def departure(sim: Simulation, server: ServerState, state: Path) -> float:
    """|c - mean(c_k)| / |c| of SCAFFOLD."""
    control, clients = flat(server.slots["control_variates"]), range(len(sim.work.federation.clients))
    own = [kept for client in clients if (kept := kept_by(sim, client, state)) is not None]
    mean = torch.stack(own).sum(0) / len(clients)
    return float((control - mean).norm() / control.norm())


@pytest.mark.parametrize(
    ("dtype", "rounds"),
    [("float64", 20), ("float32", 20), pytest.param("float64", 1000, marks=pytest.mark.faults)],
)
def test_clients_disks_and_the_server_hold_the_same_controls(
    dtype: str, rounds: int, tmp_path: Path, record_property: Callable[[str, object], None]
) -> None:
    kind, bound = DTYPES[dtype]
    sim, grid = over_flower("scaffold", tmp_path, cohort=3, dtype=kind, rounds=rounds)
    state, asked, replied = sim.open(), 0, 0
    lose(grid, 0.3)
    for _ in range(rounds):
        state, outcome = sim.advance(state)
        asked, replied = asked + outcome.asked, replied + outcome.replied
        assert outcome.rejected == ()
    found = departure(sim, state, tmp_path)
    record_property("lost replies and departure", (1 - replied / asked, found))
    assert 0.2 < 1 - replied / asked < 0.5  # of few messages a share is only about 0.3
    assert found <= bound


@pytest.mark.parametrize("rate", [0.0, 0.1, 0.5, 0.9, 1.0])
def test_rounds_below_the_least_number_of_replies_change_nothing_at_any_rate(
    rate: float, tmp_path: Path
) -> None:
    sim, grid = over_flower("scaffold", tmp_path, RoundPolicy(min_replies=3), cohort=None, rounds=12)
    state, skipped = sim.open(), 0
    lose(grid, rate)
    for _ in range(12):
        before = fingerprint(sim, state)
        state, outcome = sim.advance(state)
        assert outcome.skipped == (outcome.replied < 3) == (fingerprint(sim, state) == before)
        skipped += outcome.skipped
    assert (skipped == 0) == (rate < 0.5)
    assert skipped == 12 or rate < 1.0
