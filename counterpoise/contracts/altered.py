"""Engines whose replies are changed on their way, or were recorded before."""

from __future__ import annotations

from collections.abc import Callable, MutableMapping, Sequence
from dataclasses import dataclass, replace
from typing import cast

from counterpoise.contracts.contract import ContractError
from counterpoise.core.messages import Broadcast, Replies, Task
from counterpoise.core.part import Measurement, Pair
from counterpoise.core.tree import Tree
from counterpoise.engines.workplace import Engine
from counterpoise.run.simulation import Simulation


def check_committed(clients: Sequence[int]) -> None:
    """A server commits each client once, in order."""
    if list(clients) != sorted(set(clients)):
        raise ContractError(f"memory is kept of clients {list(clients)}: each once, in order")


@dataclass
class Altered:
    """An engine whose replies are changed on their way to the server."""

    engine: Engine
    alter: Callable[[Replies], Replies]
    refused: tuple[()] = ()

    def train(self, tasks: Sequence[Task], broadcast: Broadcast) -> Replies:
        return self.alter(self.engine.train(tasks, broadcast))

    def commit(self, round: int, clients: Sequence[int]) -> None:
        check_committed(clients)
        self.engine.commit(round, clients)

    def survey(self, clients: Sequence[int]) -> dict[str, Tree]:
        return self.engine.survey(clients)

    def tally(self, clients: Sequence[int]) -> dict[str, Tree]:
        return self.engine.tally(clients)

    def measure(self, pairs: Sequence[Pair], models: Tree, buffers: Tree, measurement: Measurement) -> Tree:
        return self.engine.measure(pairs, models, buffers, measurement)

    @property
    def memory(self) -> MutableMapping[int, dict[str, Tree]]:
        return self.engine.memory


def altered(sim: Simulation, alter: Callable[[Replies], Replies]) -> Simulation:
    """The run with an engine whose replies are changed on their way."""
    return replace(sim, engine=cast(Engine, Altered(sim.engine, alter)))


@dataclass
class Recorded:
    """Answers with replies that were recorded before; what servers ask of clients besides, the real ones answer."""

    replies: Replies
    engine: Engine
    refused: tuple[()] = ()

    def train(self, tasks: Sequence[Task], broadcast: Broadcast) -> Replies:
        return self.replies

    def commit(self, round: int, clients: Sequence[int]) -> None:
        check_committed(clients)

    def measure(self, pairs: Sequence[Pair], models: Tree, buffers: Tree, measurement: Measurement) -> Tree:
        return self.engine.measure(pairs, models, buffers, measurement)


def recorded(sim: Simulation, replies: Replies) -> Simulation:
    """The run with clients that answer with these replies."""
    return replace(sim, engine=cast(Engine, Recorded(replies, sim.engine)))
