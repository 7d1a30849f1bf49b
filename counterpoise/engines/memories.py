"""What clients keep between rounds: beside the model, beyond that in the host's memory, beyond that on disk, so that a federation may have any size."""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Callable, Iterator, MutableMapping, Sequence
from functools import partial
from pathlib import Path
from tempfile import TemporaryDirectory

import torch

from counterpoise.core.codec import decode, encode
from counterpoise.core.messages import Memory as Memory
from counterpoise.core.tree import bytes_of, leaves, tmap
from counterpoise.system.capacity import available_bytes

# A shelf holds FLOOR bytes anywhere, and one part in SHARE of what is free just then: several runs on a machine leave each
# other room. What is free is asked ASKED times while FLOOR bytes are put: that takes as long as writing a file.
FLOOR = 1 << 30
SHARE = 4
ASKED = 16

Entries = list[tuple[int, Memory]]  # client, its memory


class Shelf:
    """Memories in one kind of storage, least recently used first."""

    def __init__(self, free: Callable[[], int], floor: int = FLOOR) -> None:
        self._free, self._floor = free, floor
        self._entries: OrderedDict[int, Memory] = OrderedDict()
        self._size, self._room = 0, floor
        self._unmeasured = 0  # bytes put since it was asked what is free

    def __contains__(self, client: int) -> bool:
        return client in self._entries

    def put(self, client: int, memory: Memory) -> Entries:
        """Keep it as the newest; returns what has no room any more, which is never the newest."""
        self._entries[client] = memory
        self._grow(bytes_of(memory))
        fallen: Entries = []
        while self._size > self._room and len(self._entries) > 1:
            oldest = next(iter(self._entries))
            fallen.append((oldest, self.take(oldest)))
        return fallen

    def use(self, client: int) -> Memory:
        self._entries.move_to_end(client)
        return self._entries[client]

    def take(self, client: int) -> Memory:
        memory = self._entries.pop(client)
        self._size -= bytes_of(memory)
        return memory

    def _grow(self, added: int) -> None:
        self._size += added
        self._unmeasured += added
        if self._size > self._floor and self._unmeasured >= self._floor // ASKED:
            self._room, self._unmeasured = max(self._floor, self._free() // SHARE), 0


class Memories(MutableMapping[int, Memory]):
    """Client -> its memory. What falls off a shelf goes to the next, and from the last to a temporary folder that is deleted on close."""

    def __init__(self, shelves: Sequence[Shelf] = ()) -> None:
        self._shelves = tuple(shelves)  # none: chosen when there is something to keep
        self._devices: dict[int, torch.device] = {}  # client -> where its tensors are used
        self._versions: dict[int, int] = {}
        self._changes = 0
        self._folder: TemporaryDirectory[str] | None = None

    def __getitem__(self, client: int) -> Memory:
        device = self._devices[client]
        if client not in self._shelves[0]:
            self._keep(client, tmap(lambda leaf: leaf.to(device), self._fetch(client)))
        return self._shelves[0].use(client)

    def __setitem__(self, client: int, memory: Memory) -> None:
        self._forget(client)
        self._changes += 1
        self._versions[client] = self._changes
        self._devices[client] = device = next((leaf.device for leaf in leaves(memory)), torch.device("cpu"))
        self._shelves = self._shelves or usual_shelves(device)
        self._keep(client, memory)

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

    def _keep(self, client: int, memory: Memory) -> None:
        fallen = self._shelves[0].put(client, memory)
        for shelf in self._shelves[1:]:
            fallen = [entry for old, kept in fallen for entry in shelf.put(old, tmap(torch.Tensor.cpu, kept))]
        for old, kept in fallen:
            self._path(old).write_bytes(encode(kept))

    def _fetch(self, client: int) -> Memory:
        """Off its shelf, or from disk: the file stays, and is overwritten when this memory falls again."""
        for shelf in self._shelves:
            if client in shelf:
                return shelf.take(client)
        path = self._path(client)
        return decode(path.read_bytes(), str(path))

    def _forget(self, client: int) -> None:
        for shelf in self._shelves:
            if client in shelf:
                shelf.take(client)
        if self._devices.pop(client, None) is not None and self._folder is not None:
            self._path(client).unlink(missing_ok=True)

    def _path(self, client: int) -> Path:
        if self._folder is None:
            self._folder = TemporaryDirectory(prefix="counterpoise-memory-")
        return Path(self._folder.name) / f"{client}.safetensors"


def usual_shelves(device: torch.device) -> tuple[Shelf, ...]:
    """A GPU's own memory comes first where the tensors lie there."""
    host = Shelf(available_bytes)
    return (Shelf(partial(free_on_gpu, device)), host) if device.type == "cuda" else (host,)


def free_on_gpu(device: torch.device) -> int:
    """What the card has left: what torch holds of it unused is for the next step, captured ones never give theirs back."""
    return torch.cuda.mem_get_info(device)[0]
