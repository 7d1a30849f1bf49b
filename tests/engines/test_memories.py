"""Clients' memory: the same with and without a disk, and gone when it should be."""

from __future__ import annotations

import gc
from pathlib import Path

import pytest
import torch
from federations import LOOP, all_state, distance, run_rounds, simulate
from hypothesis import given
from hypothesis import strategies as st

from counterpoise.core.codec import digest
from counterpoise.engines.memories import FLOOR, Memories, Memory, Shelf, free_on_gpu, usual_shelves

KIB = 1024
CPU, GPU = torch.device("cpu"), torch.device("cuda", 0)


def shelves(*rooms: int) -> list[Shelf]:
    """Shelves of so many bytes."""
    return [Shelf(lambda: 0, room) for room in rooms]


def kept(number: int) -> Memory:
    """1 KiB."""
    return {"control": {"w": torch.full((256,), float(number))}}


def folder_of(memories: Memories) -> Path:
    assert memories._folder is not None
    return Path(memories._folder.name)


@pytest.mark.parametrize("rooms", [(3 * KIB,), (2 * KIB, 2 * KIB), (0, KIB, 3 * KIB)])
@given(uses=st.lists(st.tuples(st.sampled_from(["put", "get", "drop"]), st.integers(0, 7)), max_size=40))
def test_any_order_of_use_equals_a_dict(rooms: tuple[int, ...], uses: list[tuple[str, int]]) -> None:
    memories, known = Memories(shelves(*rooms)), {}
    for number, (use, client) in enumerate(uses):
        if use == "put":
            memories[client] = known[client] = kept(number)
        elif use == "drop" and client in known:
            del memories[client], known[client]
        elif client in known:
            assert digest(memories[client]) == digest(known[client])
    assert {k: digest(m) for k, m in memories.items()} == {k: digest(m) for k, m in known.items()}
    memories.close()


def test_only_what_is_over_the_bound_is_on_disk() -> None:
    memories = Memories(shelves(3 * KIB))
    for client in range(3):
        memories[client] = kept(client)
    assert memories._folder is None
    memories[0]  # used just now, so that client 1 is the one to go
    memories[3] = kept(3)
    assert [path.name for path in folder_of(memories).iterdir()] == ["1.safetensors"]


def test_a_version_changes_with_the_memory_alone() -> None:
    memories = Memories(shelves(2 * KIB))
    for client in range(6):
        memories[client] = kept(client)
    before = [memories.version(client) for client in range(6)]
    memories[0]
    assert [memories.version(client) for client in range(6)] == before
    memories[2] = kept(2)
    assert [memories.version(client) != before[client] for client in range(6)] == [k == 2 for k in range(6)]


@pytest.mark.parametrize("end", ["close", "forget"])
def test_nothing_is_left_on_disk(end: str) -> None:
    memories = Memories(shelves(KIB))
    for client in range(4):
        memories[client] = kept(client)
    folder = folder_of(memories)
    assert folder.exists()
    if end == "close":
        memories.close()
    else:
        del memories
        gc.collect()
    assert not folder.exists()


@pytest.mark.parametrize(
    "rooms", [(100,), (100, 100), (100, 1 << 20)]
)  # one client's memory is larger than 100
def test_a_run_whose_memory_lies_elsewhere_comes_to_the_same_end(rooms: tuple[int, ...]) -> None:
    near, far = simulate("scaffold", engine=LOOP), simulate("scaffold", engine=LOOP)
    far.engine.memory._shelves = tuple(shelves(*rooms))
    ends = [all_state(sim, run_rounds(sim)) for sim in (near, far)]
    assert (far.engine.memory._folder is not None) == (rooms[-1] == 100)
    assert distance(*ends) == 0


@pytest.mark.parametrize("end", ["used", "put anew", "forgotten"])
def test_disk_is_used_only_when_the_second_shelf_is_full_too(end: str) -> None:
    memories = Memories(shelves(2 * KIB, 2 * KIB))
    for client in range(4):
        memories[client] = kept(client)
    assert memories._folder is None
    memories[4] = kept(4)  # 3, 4 near, 1, 2 on the second shelf
    assert [path.name for path in folder_of(memories).iterdir()] == ["0.safetensors"]
    if end == "used":
        assert digest(memories[0]) == digest(kept(0))  # 4, 0 near, 2, 3 on the second shelf
        assert (folder_of(memories) / "1.safetensors").exists()
    elif end == "put anew":
        memories[0] = kept(7)
        assert digest(memories[0]) == digest(kept(7))
    else:
        del memories[0]
        assert not list(folder_of(memories).iterdir())


def test_a_shelf_asks_what_is_free_only_beyond_its_floor_and_takes_a_quarter() -> None:
    asked: list[int] = []

    def free() -> int:
        asked.append(20 * KIB)
        return asked[-1]

    shelf = Shelf(free, 3 * KIB)
    assert [shelf.put(client, kept(client)) for client in range(3)] == [[]] * 3
    assert not asked
    assert [shelf.put(client, kept(client)) for client in (3, 4)] == [[]] * 2
    assert [client for client, _ in shelf.put(5, kept(5))] == [0]
    assert len(asked) == 3


def test_a_shelf_of_many_small_memories_asks_seldom() -> None:
    asked: list[int] = []
    shelf = Shelf(lambda: asked.append(1) or 0, 32 * KIB)  # type: ignore[func-returns-value]
    for client in range(96):
        shelf.put(client, kept(client))
    assert len(asked) == 32  # at each 2 KiB, once 32 KiB lie there


def test_a_shelf_shrinks_when_others_take_the_memory() -> None:
    free = [40 * KIB]
    shelf = Shelf(lambda: free[0], KIB)
    assert not [fallen for client in range(10) for fallen in shelf.put(client, kept(client))]
    free[0] = 16 * KIB
    assert [client for client, _ in shelf.put(10, kept(10))] == list(range(7))


def test_the_host_comes_second_on_a_gpu_alone() -> None:
    assert [len(usual_shelves(device)) for device in (CPU, GPU)] == [1, 2]
    assert all(shelf._floor == FLOOR for shelf in usual_shelves(GPU))


def test_on_a_gpu_the_first_shelf_asks_the_card(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(torch.cuda, "mem_get_info", lambda device: (100, 1000) if device == GPU else (0, 0))
    assert free_on_gpu(GPU) == usual_shelves(GPU)[0]._free() == 100
