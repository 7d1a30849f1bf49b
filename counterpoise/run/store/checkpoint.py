"""Checkpoints: one manifest per round, and blobs named by their SHA-256, so that damage is detected and nothing is stored twice.

Client memory that did not change since the last checkpoint is not written again: a checkpoint costs what the cohort
changed, not what all clients hold.
"""

from __future__ import annotations

import hashlib
import json
import re
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from typing import Any, NamedTuple, Protocol

from counterpoise.core.codec import decode, encode
from counterpoise.core.tree import Tree
from counterpoise.errors import ConfigError, DataError
from counterpoise.run.store.seal import digest_of
from counterpoise.system.atomic import clear_temporaries, write_atomically
from counterpoise.system.toml import short

SCHEMA = 2  # 1 had no hashes of the logs
BLOB_NAME = re.compile("[0-9a-f]{64}")


class Kept(Protocol):
    """Memory of clients, each with a version number that changes whenever it does."""

    def __iter__(self) -> Iterator[int]: ...

    def __getitem__(self, client: int, /) -> Tree: ...

    def version(self, client: int) -> int: ...


class Checkpoint(NamedTuple):
    """What a run is resumed from."""

    round: int
    server: Tree
    memory: Mapping[int, Tree]  # read from disk on access
    facts: dict[str, Any]  # what must agree when the run is resumed


class Stored(Mapping[int, Tree]):
    """Clients' memory on disk, read on access."""

    def __init__(self, names: Mapping[int, str], read: Callable[[str], Tree]) -> None:
        self._names, self._read = names, read

    def __getitem__(self, client: int) -> Tree:
        return self._read(self._names[client])

    def __iter__(self) -> Iterator[int]:
        return iter(self._names)

    def __len__(self) -> int:
        return len(self._names)


class CheckpointStore:
    """The checkpoints of one run, newest last."""

    def __init__(self, folder: Path, keep: int = 3) -> None:
        self.folder, self.keep = folder, keep
        self.blobs = folder / "blobs"
        self.damaged: list[str] = []  # one message per checkpoint that `load` could not use
        self._written: dict[int, tuple[int, str]] = {}  # client -> version and name of what was last written

    def save(self, round: int, server: Tree, memory: Kept, facts: Mapping[str, Any]) -> None:
        """Write a checkpoint; it exists once its manifest is in place."""
        self.blobs.mkdir(parents=True, exist_ok=True)
        body = {
            "schema": SCHEMA,
            "round": round,
            "server": self._put(server),
            "memory": {str(client): self._put_memory(client, memory) for client in sorted(memory)},
            "facts": facts,
        }
        _write_manifest(self._manifest(round), body)
        self._remove_old()

    def load(self, before: int | None = None) -> Checkpoint | None:
        """The newest intact checkpoint, of all or of those before a round; damaged ones are removed and noted."""
        clear_temporaries(self.folder)
        clear_temporaries(self.blobs)
        older = None if before is None else self._manifest(before)
        for path in reversed(self._manifests()):
            if older is not None and path >= older:
                continue
            try:
                return self._read(path)
            except DataError as error:
                self.damaged.append(str(error))
                path.unlink()
        return None

    def drop_after(self, round: int) -> None:
        """Remove checkpoints after a round."""
        for path in self._manifests():
            if path > self._manifest(round):
                path.unlink()

    def change_facts(self, change: Callable[[int, dict[str, Any]], dict[str, Any] | None]) -> None:
        """Write each checkpoint again with other facts, the newest last; one without facts is removed."""
        for path in self._manifests():
            try:
                body = _read_manifest(path)
            except DataError:  # `load` removes it and says so, should it come to it
                continue
            facts = change(int(body["round"]), dict(body["facts"]))
            if facts is None:
                path.unlink()
            else:
                _write_manifest(path, {**body, "facts": facts})

    def _read(self, path: Path) -> Checkpoint:
        body = _read_manifest(path)
        if body["schema"] != SCHEMA:
            raise ConfigError(
                f"{path} has schema {body['schema']!r}; this version reads {SCHEMA}: use the version that wrote it"
            )
        try:
            names = {int(client): str(name) for client, name in body["memory"].items()}
            for name in names.values():
                self._read_blob(name)  # so that damage is detected now, not during the run
            memory = Stored(names, self._get)
            found = Checkpoint(int(body["round"]), self._get(body["server"]), memory, dict(body["facts"]))
        except (KeyError, TypeError, ValueError, AttributeError):
            raise DataError(f"{path} is not a checkpoint of this program") from None
        return found

    def _put(self, tree: Tree) -> str:
        content = encode(tree)
        name = hashlib.sha256(content).hexdigest()
        if not (self.blobs / name).exists():
            write_atomically(self.blobs / name, content)
        return name

    def _put_memory(self, client: int, memory: Kept) -> str:
        known, version = self._written.get(client), memory.version(client)
        if known is None or known[0] != version:
            known = self._written[client] = (version, self._put(memory[client]))
        return known[1]

    def _get(self, name: str) -> Tree:
        return decode(self._read_blob(name), str(self.blobs / name))

    def _read_blob(self, name: str) -> bytes:
        if not BLOB_NAME.fullmatch(name):
            raise DataError(f"{short(name)} is not a SHA-256")
        path = self.blobs / name
        content = path.read_bytes() if path.is_file() else b""
        if hashlib.sha256(content).hexdigest() != name:
            # Left in place, it would count as written when the same state is reached again.
            path.unlink(missing_ok=True)
            raise DataError(f"{path} is damaged: its SHA-256 is not its name")
        return content

    def _manifest(self, round: int) -> Path:
        return self.folder / f"round-{round:08d}.json"

    def _manifests(self) -> list[Path]:
        return sorted(self.folder.glob("round-*.json"))

    def _remove_old(self) -> None:
        for path in self._manifests()[: -self.keep]:
            path.unlink()
        wanted = {name for path in self._manifests() for name in _names(path)}
        for blob in self.blobs.iterdir():
            if blob.name not in wanted:
                blob.unlink()


def _read_manifest(path: Path) -> dict[str, Any]:
    try:
        manifest = json.loads(path.read_bytes())
        body = manifest["body"]
        sound = manifest["sha256"] == digest_of(body) and "schema" in body
    except (ValueError, KeyError, TypeError, RecursionError):
        sound = False
    if not sound:
        raise DataError(f"{path} is damaged: its content does not match its SHA-256")
    return dict(body)


def _write_manifest(path: Path, body: Mapping[str, Any]) -> None:
    write_atomically(path, json.dumps({"body": body, "sha256": digest_of(body)}).encode())


def _names(path: Path) -> Iterator[str]:
    try:
        body = _read_manifest(path)
    except DataError:
        return
    yield body["server"]
    yield from body["memory"].values()
