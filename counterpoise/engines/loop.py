"""Clients one after another: the reference, and the engine to debug with."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from counterpoise.client import Broadcast, Result, begin, end, step
from counterpoise.core.part import Stats, Task
from counterpoise.core.tree import stack
from counterpoise.differentiate import direct_gradient
from counterpoise.engines.memories import Memory
from counterpoise.engines.threads import threads
from counterpoise.engines.workplace import Opened, Workplace, batches_of, open_task


@dataclass(frozen=True)
class LoopTrainer:
    """Each task by itself, on one thread, so that results do not depend on how many run side by side."""

    work: Workplace

    def __call__(self, tasks: Sequence[Task], memories: Sequence[Memory], broadcast: Broadcast) -> Result:
        with threads(1):
            return stack_results(
                [
                    train_task(self.work, task, memory, broadcast)
                    for task, memory in zip(tasks, memories, strict=True)
                ]
            )

    def close(self) -> None:
        pass


def train_task(work: Workplace, task: Task, memory: Memory, broadcast: Broadcast) -> Result:
    """One client's round."""
    return train_opened(work, open_task(work, task, memory, broadcast), broadcast)


def train_opened(work: Workplace, opened: Opened, broadcast: Broadcast) -> Result:
    method, model, stats = work.method, work.model, Stats(**work.place(opened.stats._asdict()))
    progress = begin(method, broadcast.params, broadcast.buffers, broadcast.shared, opened.memory, stats)
    for batch in batches_of(work, opened):
        progress = step(method, model, progress, batch, stats, direct_gradient)
    return end(method, broadcast.params, progress, opened.memory, stats)


def stack_results(results: Sequence[Result]) -> Result:
    """One result with a leading axis over tasks."""
    stacked = stack([result._asdict() for result in results])
    return Result(**stacked)
