"""What clients keep between rounds: in memory up to a bound, beyond it on disk, so that a federation may be any size."""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Iterator, MutableMapping
from pathlib import Path
from tempfile import TemporaryDirectory

import torch

from counterpoise.core.codec import decode, encode
from counterpoise.core.tree import Tree, bytes_of, leaves, tmap

Memory = dict[str, Tree]  # part name -> what a client keeps for it between rounds

BOUND = 1 << 30  # bytes that stay in memory


class Memories(MutableMapping[int, Memory]):
    """Client -> its memory. Those that were used least lately lie in a folder of its own, which goes when it goes."""

    def __init__(self, bound: int = BOUND) -> None:
        self._bound, self._size = bound, 0
        self._near: OrderedDict[int, Memory] = OrderedDict()  # used longest ago first
        self._far: dict[int, torch.device] = {}  # client -> where its tensors belong
        self._versions: dict[int, int] = {}
        self._changes = 0
        self._folder: TemporaryDirectory[str] | None = None

    def __getitem__(self, client: int) -> Memory:
        if client in self._far:
            self._put_near(client, self._read(client))
            del self._far[client]  # its file stays: the next turn writes it again
        self._near.move_to_end(client)
        return self._near[client]

    def __setitem__(self, client: int, memory: Memory) -> None:
        self._forget(client)
        self._changes += 1
        self._versions[client] = self._changes
        self._put_near(client, memory)

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
        """Remove what lies on disk, and with it all else."""
        if self._folder is not None:
            self.clear()
            self._folder.cleanup()
            self._folder = None

    def _put_near(self, client: int, memory: Memory) -> None:
        self._near[client] = memory
        self._size += bytes_of(memory)
        while self._size > self._bound and len(self._near) > 1:
            self._put_far(*self._near.popitem(last=False))

    def _put_far(self, client: int, memory: Memory) -> None:
        self._size -= bytes_of(memory)
        self._far[client] = next((leaf.device for leaf in leaves(memory)), torch.device("cpu"))
        self._path(client).write_bytes(encode(memory))

    def _read(self, client: int) -> Memory:
        path = self._path(client)
        return tmap(lambda leaf: leaf.to(self._far[client]), decode(path.read_bytes(), str(path)))

    def _forget(self, client: int) -> None:
        if client in self._near:
            self._size -= bytes_of(self._near.pop(client))
        if self._far.pop(client, None) is not None:
            self._path(client).unlink()

    def _path(self, client: int) -> Path:
        if self._folder is None:
            self._folder = TemporaryDirectory(prefix="counterpoise-memory-")
        return Path(self._folder.name) / f"{client}.safetensors"
