"""What a partition is: labels in, one index vector per client out."""

from __future__ import annotations

from collections.abc import Callable
from typing import NamedTuple

import numpy as np

from counterpoise.data.types import Labels, Rows
from counterpoise.registry.registry import Registry

MOST_CLIENTS = 10_000_000
FEW_CLIENTS = 10  # where nobody says how many
NATURAL = "natural"  # the partition by the clients that the data has


class Split(NamedTuple):
    """Disjoint rows of each client, and notes on what was repaired to reach the minimum."""

    clients: list[Rows]
    repairs: tuple[str, ...] = ()


Partition = Callable[[Labels, int, np.random.Generator], Split]  # labels, number of clients, stream -> split


PARTITIONS: Registry[Partition] = Registry("partition", ["counterpoise.data.partitions"])
partition = PARTITIONS.register


def usual_clients(partition: str) -> int:
    """The number of clients where none is given; 0: all that the data has."""
    return 0 if partition == NATURAL else FEW_CLIENTS
