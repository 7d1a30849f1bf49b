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
from counterpoise.engines import memories as memories_module
from counterpoise.engines.memories import Memories, Memory, default_bound

KIB = 1024


def kept(number: int) -> Memory:
    """1 KiB."""
    return {"control": {"w": torch.full((256,), float(number))}}


def folder_of(memories: Memories) -> Path:
    assert memories._folder is not None
    return Path(memories._folder.name)


@given(st.lists(st.tuples(st.sampled_from(["put", "get", "drop"]), st.integers(0, 7)), max_size=40))
def test_any_order_of_use_equals_a_dict(uses: list[tuple[str, int]]) -> None:
    memories, known = Memories(bound=3 * KIB), {}
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
    memories = Memories(bound=3 * KIB)
    for client in range(3):
        memories[client] = kept(client)
    assert memories._folder is None
    memories[0]  # used just now, so that client 1 is the one to go
    memories[3] = kept(3)
    assert [path.name for path in folder_of(memories).iterdir()] == ["1.safetensors"]


def test_a_version_changes_with_the_memory_alone() -> None:
    memories = Memories(bound=2 * KIB)
    for client in range(6):
        memories[client] = kept(client)
    before = [memories.version(client) for client in range(6)]
    memories[0]
    assert [memories.version(client) for client in range(6)] == before
    memories[2] = kept(2)
    assert [memories.version(client) != before[client] for client in range(6)] == [k == 2 for k in range(6)]


@pytest.mark.parametrize("end", ["close", "forget"])
def test_nothing_is_left_on_disk(end: str) -> None:
    memories = Memories(bound=KIB)
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


def test_a_run_whose_memory_lies_on_disk_comes_to_the_same_end() -> None:
    near, far = simulate("scaffold", engine=LOOP), simulate("scaffold", engine=LOOP)
    far.engine.memory._bound = 100  # one client's memory is larger
    ends = [all_state(sim, run_rounds(sim)) for sim in (near, far)]
    assert folder_of(far.engine.memory).exists()
    assert distance(*ends) == 0


@pytest.mark.parametrize(("free", "bound"), [(0, 1 << 30), (1 << 33, 1 << 30), (1 << 36, 1 << 32)])
def test_where_there_is_more_memory_more_stays_in_it(
    free: int, bound: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(memories_module, "available_bytes", lambda: free)
    monkeypatch.setattr(torch.cuda, "memory_reserved", lambda: 0)
    assert default_bound() == bound


def test_on_a_gpu_its_own_free_memory_counts_too(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(memories_module, "available_bytes", lambda: 1 << 36)
    monkeypatch.setattr(torch.cuda, "memory_reserved", lambda: 1)
    monkeypatch.setattr(torch.cuda, "mem_get_info", lambda: (1 << 35, 1 << 36))
    assert default_bound() == 1 << 31
