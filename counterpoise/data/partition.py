"""What a partition is: labels in, one index vector a client out."""

from __future__ import annotations

from collections.abc import Callable
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from counterpoise.registry.registry import Registry

Rows = NDArray[np.int64]
MOST_CLIENTS = 10_000_000


class Labels(NamedTuple):
    """What a partition may look at."""

    y: Rows  # [n] class of each sample
    classes: int
    groups: Rows | None = None  # [n] natural client of each sample, where the data has one


class Split(NamedTuple):
    """Disjoint rows of each client, and in words what had to be repaired to honour a minimum."""

    clients: list[Rows]
    repairs: tuple[str, ...] = ()


Partition = Callable[[Labels, int, np.random.Generator], Split]  # labels, number of clients, stream -> split


PARTITIONS: Registry[Partition] = Registry("partition", ["counterpoise.data.partitions"])
partition = PARTITIONS.register
