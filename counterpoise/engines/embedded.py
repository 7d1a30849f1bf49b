"""The engine for clients simulated in this process: it keeps their memory and asks a trainer to train."""

from __future__ import annotations

import secrets
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, ClassVar, NamedTuple

import torch

from counterpoise.client.measure import measure
from counterpoise.core.messages import Broadcast, Replies, Result, Task
from counterpoise.core.part import Measurement, Pair
from counterpoise.core.protocol import Rejection
from counterpoise.core.tree import Params, Tree, add, bytes_of, stack, take, tmap
from counterpoise.data.dataset import Samples
from counterpoise.engines.memories import Memories, Memory
from counterpoise.engines.opening import Trainer, Workload
from counterpoise.engines.service import (
    first_memory,
    measure_held_out,
    measure_own,
    models_by_client,
    own_model,
    survey,
    take_models,
    tally,
    train,
)
from counterpoise.engines.sums import asked_for, by_part, numbers_of, plain_facts, sum_client, sum_numbers
from counterpoise.engines.workplace import Engine, Workplace
from counterpoise.privacy.layout import Layout


@dataclass
class EmbeddedEngine:
    """Trains and measures for a server; owns the clients' memory, which changes only by ``commit``."""

    work: Workplace
    trainer: Trainer
    memory: Memories = field(default_factory=Memories)
    tallied: Mapping[str, Any] = field(default_factory=dict)
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

    def measure_everyone(
        self, params: Params, buffers: Params, samples: Samples, measurement: Measurement
    ) -> Tree:
        """Sums over the models that the clients with training samples would use, each on all of these samples."""
        first = first_memory(self.work, params, buffers)
        total: Tree = {}
        for client in torch.nonzero(self.work.federation.samples()).flatten().tolist():
            own = own_model(self.work, params, buffers, self.work.place(self.memory.get(client, first)))
            found = measure(self.work.model, *own, samples, self.work.federation.scaling, measurement)
            total = add(total, found) if total else found
        return total

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
        total = self._summed(clients) if self.work.privacy.in_messages else self._added(clients)
        return {name: self.work.place(tree) for name, tree in total.items()}

    def _added(self, clients: Sequence[int]) -> dict[str, Tree]:
        """The sums without messages: what is counted of the traffic is what clients would say."""
        began = time.perf_counter()
        found = [tally(self.work, client) for client in clients]
        total = tmap(lambda leaf: leaf.sum(0), stack(found)) if found else {}
        said, spent = sum(map(bytes_of, found)), time.perf_counter() - began
        self.tallied = plain_facts(self.work, len(found), said, spent)
        return total

    def _summed(self, clients: Sequence[int]) -> dict[str, Tree]:
        """The sums by the protocol of [privacy], message for message: each side holds only what it may."""
        run, what = secrets.token_hex(32), asked_for(self.work)
        sides = {str(k): sum_client(self.work, k, str(k), run) for k in clients}
        samples = {str(k): int(self.work.federation.samples()[k]) for k in clients}
        layout = Layout.of(numbers_of(self.work, clients[0], what))

        def exchange(asks: Mapping[str, bytes]) -> dict[str, bytes]:
            return {name: sides[name].answer(ask) for name, ask in asks.items()}

        total, self.tallied = sum_numbers(self.work.privacy, what, layout, samples, exchange, run)
        return by_part(self.work, total)


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
