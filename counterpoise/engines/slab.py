"""Shared memory of two processes: one writes a tree into it, the other reads it in place."""

from __future__ import annotations

import mmap
import os
from collections.abc import Iterator
from typing import Any, NamedTuple

import torch
from torch import Tensor

from counterpoise.core.tree import Tree, flatten, unflatten

ALIGNMENT = 64  # bytes; matrix products may round by the alignment of their inputs


class Place(NamedTuple):
    """Where a tensor lies in a slab."""

    path: str
    dtype: str
    shape: tuple[int, ...]
    offset: int
    size: int  # bytes


class Slab:
    """Anonymous memory behind a file descriptor: it is freed when both processes have ended."""

    def __init__(self, descriptor: int | None = None) -> None:
        self.descriptor = os.memfd_create("counterpoise") if descriptor is None else descriptor
        self._memory: mmap.mmap | None = None

    def write(self, tree: Tree) -> list[Place]:
        """Copy a tree into the slab, which grows as needed; returns where each tensor lies."""
        flat = {path: leaf.detach() for path, leaf in flatten(tree).items()}
        places = list(_lay_out(flat))
        end = places[-1].offset + places[-1].size if places else 0
        if self._size() < end:
            os.ftruncate(self.descriptor, end)
        for place in places:
            if place.size:
                self._at(place, end).copy_(flat[place.path])
        return places

    def read(self, places: list[Place]) -> Tree:
        """A copy of the tree that was written."""
        return unflatten({path: leaf.clone() for path, leaf in self.view(places).items()})

    def view(self, places: list[Place]) -> dict[str, Tensor]:
        """Path -> tensor in the slab's own memory, valid until the next tree is written."""
        end = places[-1].offset + places[-1].size if places else 0
        return {place.path: self._at(place, end) if place.size else _empty(place) for place in places}

    def close(self) -> None:
        self._memory = None
        os.close(self.descriptor)

    def _size(self) -> int:
        return os.fstat(self.descriptor).st_size

    def _at(self, place: Place, end: int) -> Tensor:
        if self._memory is None or len(self._memory) < end:
            self._memory = mmap.mmap(self.descriptor, self._size())
        window = memoryview(self._memory)[place.offset : place.offset + place.size]
        return torch.frombuffer(window, dtype=getattr(torch, place.dtype)).view(place.shape)


def as_places(rows: list[list[Any]]) -> list[Place]:
    """Places read from JSON."""
    return [Place(path, dtype, tuple(shape), offset, size) for path, dtype, shape, offset, size in rows]


def _lay_out(flat: dict[str, Tensor]) -> Iterator[Place]:
    offset = 0
    for path, leaf in flat.items():
        size = leaf.numel() * leaf.element_size()
        yield Place(path, str(leaf.dtype).removeprefix("torch."), tuple(leaf.shape), offset, size)
        offset += -(-size // ALIGNMENT) * ALIGNMENT


def _empty(place: Place) -> Tensor:
    return torch.empty(place.shape, dtype=getattr(torch, place.dtype))
