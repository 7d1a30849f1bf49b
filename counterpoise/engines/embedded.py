"""The engine for clients simulated in this process: it keeps their memory and asks a trainer to train."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import ClassVar, NamedTuple

import torch

from counterpoise.core.messages import Broadcast, Replies, Result, Task
from counterpoise.core.part import Measurement, Pair
from counterpoise.core.protocol import Rejection
from counterpoise.core.tree import Params, Tree, stack, take, tmap
from counterpoise.engines.memories import Memories, Memory
from counterpoise.engines.service import (
    first_memory,
    measure_held_out,
    measure_own,
    models_by_client,
    survey,
    take_models,
    tally,
    train,
)
from counterpoise.engines.workplace import Engine, Trainer, Workload, Workplace


@dataclass
class EmbeddedEngine:
    """Trains and measures for a server; owns the clients' memory, which changes only by ``commit``."""

    work: Workplace
    trainer: Trainer
    memory: Memories = field(default_factory=Memories)
    refused: ClassVar[Sequence[Rejection]] = ()  # nothing is lost or forged within a process
    _pending: dict[int, Memory] = field(default_factory=dict, repr=False)

    def train(self, tasks: Sequence[Task], broadcast: Broadcast) -> Replies:
        [result] = train(self.trainer, [self.workload(tasks, broadcast)])
        return self.receive(tasks, result)

    def workload(self, tasks: Sequence[Task], broadcast: Broadcast) -> Workload:
        """What a trainer must know to train these tasks."""
        first = first_memory(self.work, broadcast.params, broadcast.buffers)
        memories = [self.memory.get(task.client, first) for task in tasks]
        return Workload(self.work, tasks, memories, broadcast)

    def receive(self, tasks: Sequence[Task], result: Result) -> Replies:
        """The replies of a training; the clients' new memory is pending until ``commit``."""
        kept = zip(tasks, result.memories(len(tasks)), strict=True)
        self._pending = {task.client: memory for task, memory in kept if memory}
        client = torch.tensor([task.client for task in tasks])
        return Replies.from_tree(client, self.work.federation.samples()[client], result.reply_tree())

    def commit(self, round: int, clients: Sequence[int]) -> None:
        self.memory.update({client: self._pending[client] for client in clients if client in self._pending})
        self._pending = {}

    def measure(
        self, pairs: Sequence[Pair], models: Params, buffers: Params, measurement: Measurement
    ) -> Tree:
        sums: dict[Pair, Tree] = {}
        for client, wanted in models_by_client(pairs).items():
            judged = take_models(models, wanted), take_models(buffers, wanted)
            found = measure_held_out(self.work, client, *judged, measurement)
            sums |= {Pair(client, model): take(found, k) for k, model in enumerate(wanted)}
        return stack([sums[pair] for pair in pairs])

    def measure_own(
        self, clients: Sequence[int], params: Params, buffers: Params, measurement: Measurement
    ) -> Tree:
        first, given = first_memory(self.work, params, buffers), (params, buffers)
        kept = ((client, self.work.place(self.memory.get(client, first))) for client in clients)
        return stack([measure_own(self.work, client, *given, memory, measurement) for client, memory in kept])

    def close(self) -> None:
        """Close the trainer, and drop the clients' memory."""
        self.trainer.close()
        self.memory.close()

    def survey(self, clients: Sequence[int]) -> dict[str, Tree]:
        if self.work.method.owner("survey") is None:  # of perhaps a million clients
            return {}
        found = [survey(self.work, client) for client in clients]
        return {name: self.work.place(stack([one[name] for one in found])) for name in (found or [{}])[0]}

    def tally(self, clients: Sequence[int]) -> dict[str, Tree]:
        if self.work.method.owner("tally") is None:
            return {}
        found = [tally(self.work, client) for client in clients]
        total = tmap(lambda leaf: leaf.sum(0), stack(found)) if found else {}
        return {name: self.work.place(tree) for name, tree in total.items()}


class Request(NamedTuple):
    """The tasks of one run in a round, and what its server sends."""

    tasks: Sequence[Task]
    broadcast: Broadcast


def train_all(engines: Sequence[Engine], requests: Sequence[Request]) -> list[Replies | None]:
    """The replies of each engine's clients, None without tasks; engines that share a trainer train in one program."""
    busy = [place for place, request in enumerate(requests) if request.tasks]
    if len(engines) == 1:
        return [engines[0].train(*requests[0]) if busy else None]
    embedded = [engine for engine in engines if isinstance(engine, EmbeddedEngine)]
    loads = [embedded[place].workload(*requests[place]) for place in busy]
    trained = dict(zip(busy, train(embedded[0].trainer, loads) if loads else [], strict=True))
    return [
        engine.receive(request.tasks, trained[place]) if place in trained else None
        for place, (engine, request) in enumerate(zip(embedded, requests, strict=True))
    ]
