"""Trees of whole numbers as one vector and back, with two numbers at its end by which a wrong sum is seen."""

from __future__ import annotations

from math import prod
from typing import NamedTuple, TypeAlias

import numpy as np
import torch
from numpy.typing import NDArray

from counterpoise.core.tree import Tree, flatten, unflatten
from counterpoise.errors import ConfigError, SecurityError

Vector: TypeAlias = NDArray[np.int64]

BITS = 40  # of a number of one client: class counts, and shares in steps of 2^-32
CHECKS = 2  # numbers at the end of a vector: its own sum, and 1 for the client
WRAP = 1 << 32  # the first of them counts modulo this


class Layout(NamedTuple):
    """Names and shapes of the numbers, the same for all clients."""

    places: tuple[tuple[str, tuple[int, ...]], ...]

    @classmethod
    def of(cls, tree: Tree) -> Layout:
        found = flatten(tree)
        return cls(tuple((path, tuple(found[path].shape)) for path in sorted(found)))

    @property
    def size(self) -> int:
        return sum(prod(shape) for _, shape in self.places)

    def vector(self, tree: Tree) -> Vector:
        """The numbers of one client, refused where a sum of them could not be exact."""
        found = flatten(tree)
        for path, shape in self.places:
            leaf = found[path]
            if leaf.is_floating_point() or leaf.is_complex():
                raise ConfigError(f"{path} is {leaf.dtype}; a sum that nobody can read needs whole numbers")
            if tuple(leaf.shape) != shape:
                raise ConfigError(f"{path} is {tuple(leaf.shape)} on this client and {shape} on others")
        parts = [found[path].cpu().to(torch.int64).flatten().numpy() for path, _ in self.places]
        return _bounded(np.concatenate(parts) if parts else np.zeros(0, np.int64))

    def tree(self, vector: Vector) -> Tree:
        flat, start = {}, 0
        for path, shape in self.places:
            end = start + prod(shape)
            flat[path] = torch.from_numpy(vector[start:end].copy()).view(shape)
            start = end
        return unflatten(flat)


def _bounded(vector: Vector) -> Vector:
    if vector.size and (vector.min() < 0 or vector.max() >= 1 << BITS):
        raise ConfigError(
            f"a client counts {vector.min()} to {vector.max()}; a sum that nobody can read needs 0 to 2^{BITS} - 1"
        )
    return vector


def with_checks(values: Vector) -> Vector:
    """The numbers of one client, their sum modulo 2^32, and 1."""
    return np.concatenate([values, [int(values.sum()) % WRAP, 1]]).astype(np.int64)


def checked(total: Vector, clients: int) -> Vector:
    """A sum without its check numbers, refused where they show that it is not the sum over these clients."""
    values, (wanted, contributors) = total[:-CHECKS], total[-CHECKS:]
    if contributors != clients:
        raise SecurityError(
            f"the sum holds {contributors} contributions and {clients} clients were asked: a message was changed; nothing of it is used"
        )
    if int(values.sum()) % WRAP != int(wanted) % WRAP:
        raise SecurityError(
            "the sum does not fit its check number: a message was changed; nothing of it is used"
        )
    return values
