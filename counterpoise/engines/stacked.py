"""Clients side by side: the same begin, step and end under ``vmap`` over stacked clients."""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial
from typing import NamedTuple

import torch
from torch import Tensor, vmap

from counterpoise.client import Broadcast, Progress, Result, begin, end, step
from counterpoise.core.part import Batch, Stats, Task
from counterpoise.core.tree import Tree, concatenate, stack, take, tmap
from counterpoise.data.augment import Draws
from counterpoise.engines.workplace import Memory, Opened, Workplace, open_task


class StackedTrainer:
    """All tasks of a chunk at once; a chunk bounds the memory."""

    def __init__(self, work: Workplace, chunk: int, compile: bool = False) -> None:
        self.work, self.chunk = work, chunk
        stacked_step = vmap(partial(step, work.method, work.model))
        self._step = torch.compile(stacked_step) if compile else stacked_step

    def __call__(self, tasks: Sequence[Task], memories: Sequence[Memory], broadcast: Broadcast) -> Result:
        opened = [
            open_task(self.work, task, memory, broadcast)
            for task, memory in zip(tasks, memories, strict=True)
        ]
        # Longest first: clients of like length share a chunk, and those still active are always a prefix.
        order = sorted(range(len(opened)), key=lambda k: -opened[k].plan.steps)
        chunks = [order[first : first + self.chunk] for first in range(0, len(order), self.chunk)]
        trained = concatenate(
            [self._train_chunk([opened[k] for k in chunk], broadcast)._asdict() for chunk in chunks]
        )
        return Result(**take(trained, torch.tensor(order).argsort()))

    def close(self) -> None:
        pass

    def _train_chunk(self, opened: Sequence[Opened], broadcast: Broadcast) -> Result:
        """Train clients sorted by falling number of steps; each leaves the stack after its last step."""
        method, received = self.work.method, broadcast.params
        memory = stack([task.memory for task in opened])
        stats = Stats(**stack([task.stats._asdict() for task in opened]))
        visits = stack_plans(opened)
        progress: Progress = vmap(partial(begin, method, received, broadcast.buffers, broadcast.shared))(
            memory, stats
        )
        finished: list[Tree] = []
        for index, active in enumerate(active_counts([task.plan.steps for task in opened])):
            if active < len(progress.loss):
                finished.append(take(progress._asdict(), slice(active, None)))
                progress = Progress(**take(progress._asdict(), slice(active)))
            batch = batch_at(self.work, visits, index, active)
            progress = self._step(progress, batch, Stats(**take(stats._asdict(), slice(active))))
        progress = Progress(**concatenate([progress._asdict(), *reversed(finished)]))
        result: Result = vmap(partial(end, method, received))(progress, memory, stats)
        return result


class Visits(NamedTuple):
    """The planned batches of a chunk."""

    rows: Tensor  # [K, S, B]
    labels: Tensor  # [K, S, B]
    mask: Tensor  # [K, S, B]
    draws: Draws  # [K, S, B, *]


def active_counts(steps: Sequence[int]) -> list[int]:
    """How many clients, sorted by falling number of steps, take part in each step."""
    return [sum(count > index for count in steps) for index in range(max(steps, default=0))]


def stack_plans(opened: Sequence[Opened]) -> Visits:
    """Rows, labels and masks of every batch; clients with fewer steps are filled up with batches nobody visits."""
    longest = max(task.plan.steps for task in opened)
    device = opened[0].data.rows.device

    def fill(tensor: Tensor) -> Tensor:
        return torch.cat([tensor, tensor.new_zeros(longest - len(tensor), *tensor.shape[1:])])

    positions = [task.plan.positions.to(device) for task in opened]
    return Visits(
        torch.stack([fill(task.data.rows[p]) for task, p in zip(opened, positions, strict=True)]),
        torch.stack([fill(task.data.labels[p]) for task, p in zip(opened, positions, strict=True)]),
        torch.stack([fill(task.plan.mask.to(device)) for task in opened]),
        stack([tmap(fill, task.draws) for task in opened]),
    )


def batch_at(work: Workplace, visits: Visits, index: int, active: int) -> Batch:
    """One step's batches of the first clients, by one gather."""
    inputs = work.inputs(visits.rows[:active, index], tmap(lambda d: d[:active, index], visits.draws))
    return Batch(inputs, visits.labels[:active, index], visits.mask[:active, index].to(inputs.dtype))
