"""Memory on a client's disk: pending until named, never applied twice, and always of the server's round."""

from __future__ import annotations

import copy
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

pytest.importorskip("flwr", reason="flwr is not installed: pip install 'counterpoise[flower]'")

import torch
from federations import ask_clients, run_rounds, simulate
from local_grid import FIRST_NODE, RUN, LocalGrid, join, over_flower, seats_of

from counterpoise.core.codec import digest
from counterpoise.flower.memory import FIRST, KEPT_RUNS, DiskMemory, next_token
from counterpoise.flower.refusal import Refused
from counterpoise.flower.server import KEPT, RoundPolicy
from counterpoise.run.simulation import Simulation
from counterpoise.server.state import ServerState

ALL = range(6)


def tree(value: float) -> Any:
    return {"part": {"x": torch.tensor([value])}}


def token(number: int) -> str:
    return f"{number:064x}"


def disk(path: Path) -> DiskMemory:
    return DiskMemory(path, RUN, "a")


def generations(path: Path) -> set[str]:
    return {p.name for p in disk(path).folder.iterdir()}


def test_what_was_written_is_read_back(tmp_path: Path) -> None:
    disk(tmp_path).write(token(1), FIRST, 0, tree(3.0))
    assert digest(disk(tmp_path).load(token(1)) or {}) == digest(tree(3.0))
    assert disk(tmp_path).load(FIRST) is None


@pytest.mark.parametrize("cut", [0, 1, 31, 40, 60])
def test_a_damaged_generation_is_refused(tmp_path: Path, cut: int) -> None:
    disk(tmp_path).write(token(1), FIRST, 0, tree(3.0))
    path = disk(tmp_path).folder / token(1)
    path.write_bytes(path.read_bytes()[:cut])
    with pytest.raises(Refused, match="memory"):
        disk(tmp_path).load(token(1))


def test_a_generation_that_is_not_there_is_refused(tmp_path: Path) -> None:
    with pytest.raises(Refused, match="memory"):
        disk(tmp_path).load(token(1))


@pytest.mark.parametrize("name", ["../../x", "x", "a" * 63, "A" * 64, "/etc/passwd"])
def test_no_name_leads_out_of_the_folder(tmp_path: Path, name: str) -> None:
    with pytest.raises(Refused):
        disk(tmp_path).load(name)
    with pytest.raises(Refused):
        DiskMemory(tmp_path, name, "a")


def test_a_pending_generation_that_is_not_named_is_discarded(tmp_path: Path) -> None:
    here = disk(tmp_path)
    here.write(token(1), FIRST, 0, tree(1.0))
    here.write(token(2), token(1), 1, tree(2.0))
    here.collect_garbage(token(1), round=2, since=0)
    assert generations(tmp_path) == {token(1)}


def test_generations_are_kept_as_far_back_as_a_checkpoint_may_be(tmp_path: Path) -> None:
    here = disk(tmp_path)
    for number in range(6):
        here.write(token(number + 1), token(number) if number else FIRST, number, tree(number))
    here.collect_garbage(
        token(6), round=6, since=3
    )  # a checkpoint of round 3 holds what was trained in round 2
    assert generations(tmp_path) == {token(n) for n in (3, 4, 5, 6)}


def test_a_message_that_comes_late_takes_nothing_away(tmp_path: Path) -> None:
    here = disk(tmp_path)
    for number in range(3):
        here.write(token(number + 1), token(number) if number else FIRST, number, tree(number))
    here.collect_garbage(token(1), round=1, since=0)  # round 1's message again, after round 2's
    assert generations(tmp_path) == {token(1), token(2), token(3)}


def test_what_old_runs_left_is_cleared_away(tmp_path: Path) -> None:
    for run in range(KEPT_RUNS + 3):
        here = DiskMemory(tmp_path, f"{run:064x}", "a")
        here.collect_garbage(FIRST, 0, 0)
        here.write(token(1), FIRST, 0, tree(1.0))
    assert len(list(here.runs.iterdir())) == KEPT_RUNS + 1


def test_a_token_says_where_memory_comes_from(tmp_path: Path) -> None:
    names = {next_token(b, c, s) for b in ("", "1" * 64) for c in ("a", "b") for s in ("x", "y")}
    assert len(names) == 8


def _state_digest(state: ServerState) -> str:
    return digest({"params": state.params, "slots": state.slots})


def test_a_message_delivered_twice_trains_from_the_same_memory(tmp_path: Path) -> None:
    alone = _state_digest(run_rounds(simulate("scaffold", rounds=4)))
    sim, grid = over_flower("scaffold", tmp_path, rounds=4)
    grid.before = lambda ask: _twice(grid, ask)
    assert _state_digest(run_rounds(sim)) == alone


def _twice(grid: LocalGrid, ask: Any) -> None:
    before, grid.before = grid.before, lambda _: None
    grid.deliver(copy.deepcopy(ask))
    grid.before = before


def test_a_lost_reply_leaves_the_clients_memory_as_it_was(tmp_path: Path) -> None:
    """SCAFFOLD's server variate stays the mean of the clients', whatever is lost."""
    alone, (sim, grid) = simulate("scaffold"), over_flower("scaffold", tmp_path)
    state, other = sim.open(), alone.open()
    for lost in [*ALL, *ALL]:
        asked = sorted({lost, (lost + 1) % 6, (lost + 3) % 6})
        grid.alter = lambda replies, lost=lost: [
            r for r in replies if r.metadata.src_node_id != FIRST_NODE - lost
        ]
        state, _ = ask_clients(sim, state, asked)
        other, _ = ask_clients(alone, other, [client for client in asked if client != lost])
    assert _state_digest(state) == _state_digest(other)


def test_a_client_that_restarts_finds_its_memory(tmp_path: Path) -> None:
    alone = _state_digest(run_rounds(simulate("scaffold", rounds=4)))
    sim, grid = over_flower("scaffold", tmp_path, rounds=4)
    state = run_rounds(sim, rounds=2)
    grid.seats = seats_of(simulate("scaffold", rounds=4).work, tmp_path)
    assert _state_digest(run_rounds(sim, state, 2)) == alone


def test_a_client_that_lost_its_memory_says_so_and_is_left_out(tmp_path: Path) -> None:
    sim, grid = over_flower("scaffold", tmp_path, cohort=None)
    state = run_rounds(sim, rounds=1)
    node, context = next((n, s) for n, s in grid.seats.items() if s.name == "2")
    grid.seats[node] = context._replace(state=tmp_path / "empty")
    _, outcome = sim.advance(state)
    assert [(r.client, r.reason) for r in outcome.rejected] == [(2, "memory")]


@pytest.mark.parametrize("back", [1, 2, 3])
@pytest.mark.parametrize("method", ["scaffold", "feddyn"])
def test_a_server_that_goes_back_takes_its_clients_with_it(method: str, back: int, tmp_path: Path) -> None:
    """As at resume: the server has the state of an older round, the clients' disks are of a newer one."""
    alone = _state_digest(run_rounds(simulate(method, rounds=6)))
    sim, grid = over_flower(method, tmp_path, RoundPolicy(window=4), rounds=6)
    states, memories = [sim.open()], [{}]
    for _ in range(5):
        states.append(sim.advance(states[-1])[0])
        memories.append(copy.deepcopy(sim.engine.memory))
    again = _resumed(sim, grid, memories[5 - back])
    assert _state_digest(run_rounds(again, states[5 - back], 1 + back)) == alone


def _resumed(sim: Simulation, grid: LocalGrid, memory: Any) -> Simulation:
    engine: Any = join(grid, sim.work, RoundPolicy(window=4))
    engine.memory.update(memory)
    return replace(sim, engine=engine)


def test_a_run_does_not_touch_the_memory_of_another(tmp_path: Path) -> None:
    sim, _ = over_flower("scaffold", tmp_path)
    run_rounds(sim)
    before = {p: p.read_bytes() for p in tmp_path.rglob("memory/*/*/*")}
    assert before
    other, _ = over_flower("scaffold", tmp_path)
    other_engine: Any = other.engine
    other_engine.run = "1" * 64
    run_rounds(other)
    assert {p: p.read_bytes() for p in before} == before
    assert all(KEPT in memory for memory in other.engine.memory.values())
