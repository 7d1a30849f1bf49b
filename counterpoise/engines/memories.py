"""What clients keep between rounds: in memory up to a bound, beyond it on disk, so that a federation may have any size."""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Iterator, MutableMapping
from pathlib import Path
from tempfile import TemporaryDirectory

import torch

from counterpoise.core.codec import decode, encode
from counterpoise.core.messages import Memory as Memory
from counterpoise.core.tree import bytes_of, leaves, tmap
from counterpoise.system.capacity import available_bytes

BOUND = 1 << 30  # bytes that stay in memory anywhere
SHARE = 16  # one part in so many of what is free, where that is more; several runs may share a machine


class Memories(MutableMapping[int, Memory]):
    """Client -> its memory; least recently used entries are spilled to a temporary folder that is deleted on close."""

    def __init__(self, bound: int | None = None) -> None:
        self._bound, self._size = default_bound() if bound is None else bound, 0
        self._cached: OrderedDict[int, Memory] = OrderedDict()  # least recently used first
        self._spilled: dict[int, torch.device] = {}  # client -> device of its tensors
        self._versions: dict[int, int] = {}
        self._changes = 0
        self._folder: TemporaryDirectory[str] | None = None

    def __getitem__(self, client: int) -> Memory:
        if client in self._spilled:
            self._cache(client, self._read(client))
            del self._spilled[client]  # its file stays, and is overwritten at the next spill
        self._cached.move_to_end(client)
        return self._cached[client]

    def __setitem__(self, client: int, memory: Memory) -> None:
        self._forget(client)
        self._changes += 1
        self._versions[client] = self._changes
        self._cache(client, memory)

    def __delitem__(self, client: int) -> None:
        del self._versions[client]
        self._forget(client)

    def __iter__(self) -> Iterator[int]:
        return iter(list(self._versions))

    def __len__(self) -> int:
        return len(self._versions)

    def __contains__(self, client: object) -> bool:
        return client in self._versions  # without reading it

    def version(self, client: int) -> int:
        """A number that changes whenever this client's memory does."""
        return self._versions[client]

    def close(self) -> None:
        """Delete the folder, and drop all entries where there was one."""
        if self._folder is not None:
            self.clear()
            self._folder.cleanup()
            self._folder = None

    def _cache(self, client: int, memory: Memory) -> None:
        self._cached[client] = memory
        self._size += bytes_of(memory)
        while self._size > self._bound and len(self._cached) > 1:
            self._spill(*self._cached.popitem(last=False))

    def _spill(self, client: int, memory: Memory) -> None:
        self._size -= bytes_of(memory)
        self._spilled[client] = next((leaf.device for leaf in leaves(memory)), torch.device("cpu"))
        self._path(client).write_bytes(encode(memory))

    def _read(self, client: int) -> Memory:
        path = self._path(client)
        return tmap(lambda leaf: leaf.to(self._spilled[client]), decode(path.read_bytes(), str(path)))

    def _forget(self, client: int) -> None:
        if client in self._cached:
            self._size -= bytes_of(self._cached.pop(client))
        if self._spilled.pop(client, None) is not None:
            self._path(client).unlink()

    def _path(self, client: int) -> Path:
        if self._folder is None:
            self._folder = TemporaryDirectory(prefix="counterpoise-memory-")
        return Path(self._folder.name) / f"{client}.safetensors"


def default_bound() -> int:
    """How many bytes may stay: on a GPU the memory of clients lies there, so the lesser of both kinds decides."""
    free = [available_bytes()]
    if torch.cuda.memory_reserved():  # this process computes on a GPU
        free.append(torch.cuda.mem_get_info()[0])
    return max(BOUND, min(free) // SHARE)
