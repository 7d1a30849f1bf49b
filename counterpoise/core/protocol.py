"""What a server may ask of its clients, with any engine."""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple, Protocol

from counterpoise.core.messages import Broadcast, Replies, Task
from counterpoise.core.part import Measurement, Pair
from counterpoise.core.tree import Params, Tree


class Ask(Protocol):
    """The questions of a server; every engine implements them."""

    def train(self, tasks: Sequence[Task], broadcast: Broadcast) -> Replies: ...

    def commit(self, round: int, clients: Sequence[int]) -> None:
        """The server used these clients' replies of this round: their new memory is kept, the others' is dropped."""

    def measure(
        self, pairs: Sequence[Pair], models: Params, buffers: Params, measurement: Measurement
    ) -> Tree:
        """Sums [P, ...] of a measurement, of each pair's model on what its client holds out."""

    def measure_own(
        self, clients: Sequence[int], params: Params, buffers: Params, measurement: Measurement
    ) -> Tree:
        """Sums [W, ...] of a measurement, of the model that each client would use on what it holds out."""

    def survey(self, clients: Sequence[int]) -> dict[str, Tree]:
        """Part name -> [N, ...] what each client reports before round 0."""

    def tally(self, clients: Sequence[int]) -> dict[str, Tree]:
        """Part name -> the sum over these clients of what each counts before round 0."""


class Rejection(NamedTuple):
    """A reply that was not used, and why."""

    client: int
    reason: str
