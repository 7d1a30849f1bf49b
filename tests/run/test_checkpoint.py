"""The checkpoint store: generations, blobs that are written once, damage that is always seen."""

from __future__ import annotations

import json
import os
import random
import shutil
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

import pytest
import torch

from counterpoise.core.codec import digest, encode
from counterpoise.core.tree import Tree
from counterpoise.engines.memories import Memories
from counterpoise.errors import ConfigError
from counterpoise.run.store import checkpoint
from counterpoise.run.store.checkpoint import Checkpoint, CheckpointStore
from counterpoise.run.store.seal import digest_of


def server(round: int) -> Tree:
    return {"params": {"w": torch.full((3, 2), float(round)), "steps": torch.tensor(round)}}


def memory(client: int, round: int) -> Tree:
    return {"control": {"w": torch.tensor([client + round / 7, -0.0, 1e-40])}}


def generation(round: int, clients: int = 3) -> Checkpoint:
    """Client k was last asked in round k."""
    return Checkpoint(
        round,
        server(round),
        {k: memory(k, k) for k in range(min(clients, round))},
        {"config": {"seed": 1}, "logs": {"metrics.jsonl": 10 * round}, "seconds": 0.1},
    )


def kept_by(trees: Mapping[int, Tree]) -> Memories:
    memories = Memories()
    memories.update(trees)
    return memories


def save(store: CheckpointStore, found: Checkpoint, memories: Memories | None = None) -> None:
    kept = kept_by(found.memory) if memories is None else memories
    store.save(found.round, found.server, kept, found.facts)


def fill(folder: Path, rounds: int = 4, keep: int = 3) -> CheckpointStore:
    store, memories = CheckpointStore(folder, keep), Memories()
    for number in range(1, rounds + 1):
        found = generation(number)
        memories.update({client: tree for client, tree in found.memory.items() if client not in memories})
        save(store, found, memories)
    return store


def same(found: Checkpoint | None, wanted: Checkpoint) -> bool:
    if found is None or (found.round, found.facts) != (wanted.round, wanted.facts):
        return False
    pairs = [(found.server, wanted.server), *((found.memory[k], wanted.memory[k]) for k in wanted.memory)]
    return found.memory.keys() == wanted.memory.keys() and all(digest(a) == digest(b) for a, b in pairs)


def manifests(folder: Path) -> list[str]:
    return sorted(path.name for path in folder.glob("round-*.json"))


def blobs(folder: Path) -> set[str]:
    return {path.name for path in (folder / "blobs").iterdir()}


def names_in(folder: Path, manifest: str) -> set[str]:
    body = json.loads((folder / manifest).read_text())["body"]
    return {body["server"], *body["memory"].values()}


def test_the_newest_generation_is_read_back_bit_for_bit(tmp_path: Path) -> None:
    fill(tmp_path)
    found = CheckpointStore(tmp_path).load()
    assert same(found, generation(4))
    assert found is not None
    assert found.server["params"]["steps"].dtype == torch.int64
    assert found.memory[0]["control"]["w"].signbit().tolist() == [False, True, False]


def test_an_empty_or_missing_folder_has_no_checkpoint(tmp_path: Path) -> None:
    assert CheckpointStore(tmp_path).load() is None
    assert CheckpointStore(tmp_path / "nothing").load() is None


@pytest.mark.parametrize("keep", [2, 3, 5])
def test_so_many_generations_are_kept(tmp_path: Path, keep: int) -> None:
    fill(tmp_path, 7, keep)
    assert manifests(tmp_path) == [f"round-{number:08d}.json" for number in range(8 - keep, 8)]


def test_only_blobs_that_a_generation_names_are_kept(tmp_path: Path) -> None:
    fill(tmp_path, 7)
    assert blobs(tmp_path) == {
        name for manifest in manifests(tmp_path) for name in names_in(tmp_path, manifest)
    }
    assert len(blobs(tmp_path)) == 3 + 3  # three servers, and three clients that never changed


def test_memory_that_did_not_change_is_neither_written_nor_encoded_again(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    store, kept = CheckpointStore(tmp_path), kept_by({k: memory(k, k) for k in range(3)})
    store.save(5, server(5), kept, {})
    before = {path.name: path.stat().st_mtime_ns for path in (tmp_path / "blobs").iterdir()}
    encoded: list[Any] = []

    def note(tree: Tree) -> bytes:
        encoded.append(tree)
        return encode(tree)

    monkeypatch.setattr(checkpoint, "encode", note)
    changed = kept[1] = memory(1, 6)
    store.save(6, server(6), kept, {})
    after = {path.name: path.stat().st_mtime_ns for path in (tmp_path / "blobs").iterdir()}
    assert len(encoded) == 2
    assert encoded[1] is changed
    assert len(after.keys() - before.keys()) == 2
    assert all(before[name] == after[name] for name in before.keys() & after.keys())


def test_equal_trees_share_a_blob(tmp_path: Path) -> None:
    CheckpointStore(tmp_path).save(1, server(1), kept_by({k: memory(0, 0) for k in range(50)}), {})
    assert len(blobs(tmp_path)) == 2


def test_what_an_interrupted_write_left_is_cleared(tmp_path: Path) -> None:
    fill(tmp_path)
    left = [tmp_path / ".partial-1-round-00000005.json", tmp_path / "blobs" / ".partial-1-abc"]
    for path in left:
        path.write_bytes(b"half")
    assert same(CheckpointStore(tmp_path).load(), generation(4))
    assert not any(path.exists() for path in left)


def test_a_blob_without_a_manifest_is_forgotten(tmp_path: Path) -> None:
    store = fill(tmp_path)
    stray = tmp_path / "blobs" / ("0" * 64)
    stray.write_bytes(b"written just before the end")
    save(store, generation(5))
    assert not stray.exists()


def test_a_dropped_generation_is_not_found_again(tmp_path: Path) -> None:
    store = fill(tmp_path)
    store.drop_after(3)
    store.drop_after(3)
    assert same(store.load(), generation(3))


def test_a_store_goes_on_after_it_was_read(tmp_path: Path) -> None:
    fill(tmp_path)
    again = CheckpointStore(tmp_path)
    assert again.load() is not None
    save(again, generation(5))
    assert same(CheckpointStore(tmp_path).load(), generation(5))
    assert manifests(tmp_path) == [f"round-0000000{number}.json" for number in (3, 4, 5)]


def truncations(path: Path, draw: random.Random) -> Iterator[bytes]:
    content = path.read_bytes()
    while True:
        yield content[: draw.randrange(len(content))]


def bit_flips(path: Path, draw: random.Random) -> Iterator[bytes]:
    content = path.read_bytes()
    while True:
        place = draw.randrange(len(content))
        yield content[:place] + bytes([content[place] ^ 1 << draw.randrange(8)]) + content[place + 1 :]


@pytest.fixture(scope="module")
def whole(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("whole")
    fill(folder)
    return folder


DAMAGES = [(damage, part) for damage in (truncations, bit_flips) for part in ("manifest", "server")]


@pytest.mark.parametrize(("damage", "part"), DAMAGES)
def test_damage_to_the_newest_is_seen_and_the_one_before_is_used(
    whole: Path, tmp_path: Path, damage: Any, part: str
) -> None:
    folder = tmp_path / "copy"
    body = json.loads((whole / "round-00000004.json").read_text())["body"]
    inside = "round-00000004.json" if part == "manifest" else f"blobs/{body['server']}"
    contents = damage(whole / inside, random.Random(part))
    for _ in range(25):
        shutil.rmtree(folder, ignore_errors=True)
        shutil.copytree(whole, folder)
        (folder / inside).write_bytes(next(contents))
        store = CheckpointStore(folder)
        assert same(store.load(), generation(3))
        assert len(store.damaged) == 1
        assert "damaged" in store.damaged[0]


def test_every_bit_of_a_manifest_counts(whole: Path, tmp_path: Path) -> None:
    path = tmp_path / "round-00000004.json"
    content = (whole / "round-00000004.json").read_bytes()
    shutil.copytree(whole / "blobs", tmp_path / "blobs")
    for place in range(len(content)):
        path.write_bytes(content[:place] + bytes([content[place] ^ 1]) + content[place + 1 :])
        assert CheckpointStore(tmp_path).load() is None, place


def test_damage_to_memory_that_all_generations_share_leaves_none(whole: Path, tmp_path: Path) -> None:
    folder = tmp_path / "copy"
    shutil.copytree(whole, folder)
    body = json.loads((folder / "round-00000004.json").read_text())["body"]
    (folder / "blobs" / body["memory"]["0"]).write_bytes(b"")
    store = CheckpointStore(folder)
    assert store.load() is None
    assert len(store.damaged) == 3


def test_a_damaged_blob_is_written_anew_when_the_same_state_is_reached(tmp_path: Path) -> None:
    fill(tmp_path)
    body = json.loads((tmp_path / "round-00000004.json").read_text())["body"]
    (tmp_path / "blobs" / body["server"]).write_bytes(b"rot")
    store = CheckpointStore(tmp_path)
    assert same(store.load(), generation(3))
    save(store, generation(4))
    assert same(CheckpointStore(tmp_path).load(), generation(4))


def test_a_blob_that_is_a_link_to_something_else_is_damage(whole: Path, tmp_path: Path) -> None:
    folder, secret = tmp_path / "copy", tmp_path / "secret"
    shutil.copytree(whole, folder)
    secret.write_bytes(b"keep")
    body = json.loads((folder / "round-00000004.json").read_text())["body"]
    blob = folder / "blobs" / body["server"]
    blob.unlink()
    blob.symlink_to(secret)
    assert same(CheckpointStore(folder).load(), generation(3))
    assert secret.read_bytes() == b"keep"


HOSTILE: list[Any] = [
    "../../secret",
    "/etc/passwd",
    "..",
    ".",
    "",
    "\0",
    "x" * 4096,
    "C:\\secret",
    "\u202e" + "a" * 64,
    "A" * 64,
    "a" * 63,
    "a" * 64 + "\n",
    5,
    None,
    ["a"],
    {"a": 1},
]


def forge(folder: Path, **changes: Any) -> None:
    """A manifest that was made by hand, with a seal that fits."""
    path = folder / "round-00000004.json"
    body = json.loads(path.read_text())["body"] | changes
    path.write_text(json.dumps({"body": body, "sha256": digest_of(body)}))


@pytest.mark.parametrize("name", HOSTILE, ids=lambda name: repr(name)[:20])
@pytest.mark.parametrize("place", ["server", "memory"])
def test_hostile_names_reach_nothing_outside(whole: Path, tmp_path: Path, name: Any, place: str) -> None:
    folder = tmp_path / "inner" / "copy"
    shutil.copytree(whole, folder)
    secret = tmp_path / "inner" / "secret"
    secret.write_bytes(b"keep")
    forge(folder, **{place: name if place == "server" else {"0": name}})
    store = CheckpointStore(folder)
    assert same(store.load(), generation(3))
    assert secret.read_bytes() == b"keep"
    assert (folder / "blobs").is_dir()


@pytest.mark.parametrize(
    "changes",
    [
        {"memory": []},
        {"memory": {"x": "a" * 64}},
        {"memory": None},
        {"round": "many"},
        {"round": None},
        {"facts": 3},
        {"facts": None},
    ],
)
def test_a_sealed_manifest_of_the_wrong_form_is_passed_over(
    whole: Path, tmp_path: Path, changes: dict[str, Any]
) -> None:
    folder = tmp_path / "copy"
    shutil.copytree(whole, folder)
    forge(folder, **changes)
    assert same(CheckpointStore(folder).load(), generation(3))


@pytest.mark.parametrize(
    "content",
    [
        b"",
        b"null",
        b"[]",
        b"{}",
        b'{"body": 1, "sha256": 2}',
        b"\x80\x04K\x01.",
        b"[" * 100_000,
        b'{"body": {}}',
    ],
)
def test_a_manifest_that_is_something_else_is_damage(whole: Path, tmp_path: Path, content: bytes) -> None:
    folder = tmp_path / "copy"
    shutil.copytree(whole, folder)
    (folder / "round-00000004.json").write_bytes(content)
    assert same(CheckpointStore(folder).load(), generation(3))


def test_a_checkpoint_of_another_form_is_refused_and_kept(whole: Path, tmp_path: Path) -> None:
    folder = tmp_path / "copy"
    shutil.copytree(whole, folder)
    forge(folder, schema=1)
    with pytest.raises(ConfigError, match=r"round-00000004\.json has schema 1; this version reads 2"):
        CheckpointStore(folder).load()
    assert (folder / "round-00000004.json").exists()


def test_checkpoints_are_plain_data(whole: Path) -> None:
    pickles = (b"\x80\x02", b"\x80\x03", b"\x80\x04", b"\x80\x05", b"PK\x03\x04")
    for path in whole.rglob("*"):
        if path.is_file():
            assert not path.read_bytes().startswith(pickles)
    assert os.listdir(whole / "blobs")
