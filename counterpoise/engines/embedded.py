"""The engine for clients simulated in this process: it keeps their memory and asks a trainer to train."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import ClassVar, NamedTuple

import torch

from counterpoise.client.measure import measure_many
from counterpoise.client.round import enroll
from counterpoise.core.messages import Broadcast, Replies, Result, Task
from counterpoise.core.part import Measurement
from counterpoise.core.protocol import Rejection
from counterpoise.core.tree import Params, Tree, finite_rows, rows, stack
from counterpoise.engines.memories import Memories, Memory
from counterpoise.engines.workplace import Engine, Trainer, Workload, Workplace


@dataclass
class EmbeddedEngine:
    """Answers a server's questions; owns the clients' memory, which changes only by ``commit``."""

    work: Workplace
    trainer: Trainer
    memory: Memories = field(default_factory=Memories)
    refused: ClassVar[Sequence[Rejection]] = ()  # nothing is lost or forged on the way within a process
    _pending: dict[int, Memory] = field(default_factory=dict, repr=False)

    def train(self, tasks: Sequence[Task], broadcast: Broadcast) -> Replies:
        [result] = self.trainer.train([self.workload(tasks, broadcast)])
        return self.receive(tasks, result)

    def workload(self, tasks: Sequence[Task], broadcast: Broadcast) -> Workload:
        """What a trainer must know to train these tasks."""
        first = enroll(self.work.method, broadcast.params, len(self.work.federation.classes))
        memories = [self.memory.get(task.client, first) for task in tasks]
        return Workload(self.work, tasks, memories, broadcast)

    def receive(self, tasks: Sequence[Task], result: Result) -> Replies:
        """The replies that a training comes to; what clients will remember waits for ``commit``."""
        # A memory that is not finite must never be committed: its loss marks the reply as bad.
        sound = finite_rows(result.memory, len(tasks)).to(result.loss.device)
        kept = rows(result.memory, len(tasks)) if result.memory else []
        self._pending = {task.client: memory for task, memory in zip(tasks, kept, strict=False)}
        client = torch.tensor([task.client for task in tasks])
        loss = torch.where(sound, result.loss, torch.nan)
        return Replies(
            client, self.work.federation.samples()[client], result.delta, result.buffers, result.upload, loss
        )

    def commit(self, round: int, clients: Sequence[int]) -> None:
        self.memory.update({client: self._pending[client] for client in clients if client in self._pending})
        self._pending = {}

    def measure(
        self, clients: Sequence[int], models: Params, buffers: Params, measurement: Measurement
    ) -> Tree:
        federation, model = self.work.federation, self.work.model
        held = [federation.train.take(federation.held_out[client]) for client in clients]
        return stack(
            [measure_many(model, models, buffers, own, federation.scaling, measurement) for own in held]
        )

    def close(self) -> None:
        """End what the trainer started, and forget what clients kept."""
        self.trainer.close()
        self.memory.close()

    def survey(self, clients: Sequence[int]) -> dict[str, Tree]:
        federation = self.work.federation
        return {
            part.name: self.work.place(
                stack([part.survey(federation.client(client), len(federation.classes)) for client in clients])
            )
            for part in self.work.method.parts
            if part.survey is not None
        }


class Request(NamedTuple):
    """What one run asks of its clients in a round."""

    tasks: Sequence[Task]
    broadcast: Broadcast


def train_all(engines: Sequence[Engine], requests: Sequence[Request]) -> list[Replies | None]:
    """What each engine's clients reply, None where nothing is asked; engines of one trainer train in one program."""
    busy = [place for place, request in enumerate(requests) if request.tasks]
    if len(engines) == 1:
        return [engines[0].train(*requests[0]) if busy else None]
    embedded = [engine for engine in engines if isinstance(engine, EmbeddedEngine)]
    loads = [embedded[place].workload(*requests[place]) for place in busy]
    trained = dict(zip(busy, embedded[0].trainer.train(loads) if loads else [], strict=True))
    return [
        engine.receive(request.tasks, trained[place]) if place in trained else None
        for place, (engine, request) in enumerate(zip(embedded, requests, strict=True))
    ]
