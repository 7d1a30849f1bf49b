"""Clients side by side: the same begin, step and end under ``vmap`` over stacked clients."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import NamedTuple

import torch
from torch import Tensor, vmap

from counterpoise.client import Broadcast, Progress, Result, begin, end, step
from counterpoise.core.part import Batch, Stats, Task
from counterpoise.core.tree import Tree, concatenate, stack, take
from counterpoise.engines.workplace import Memory, Opened, Workplace, open_task


@dataclass(frozen=True)
class StackedTrainer:
    """All tasks of a chunk at once; a chunk bounds the memory."""

    work: Workplace
    chunk: int

    def __call__(self, tasks: Sequence[Task], memories: Sequence[Memory], broadcast: Broadcast) -> Result:
        opened = [open_task(self.work, task, memory, broadcast) for task, memory in zip(tasks, memories, strict=True)]
        # Longest first: clients of like length share a chunk, and those still active are always a prefix.
        order = sorted(range(len(opened)), key=lambda k: -opened[k].plan.steps)
        chunks = [order[first : first + self.chunk] for first in range(0, len(order), self.chunk)]
        trained = concatenate([train_chunk(self.work, [opened[k] for k in chunk], broadcast)._asdict() for chunk in chunks])
        place = torch.tensor(order).argsort()
        return Result(**take(trained, place))


class Visits(NamedTuple):
    """The planned batches of a chunk."""

    rows: Tensor  # [K, S, B]
    labels: Tensor  # [K, S, B]
    mask: Tensor  # [K, S, B]


def train_chunk(work: Workplace, opened: Sequence[Opened], broadcast: Broadcast) -> Result:
    """Train clients sorted by falling number of steps; each leaves the stack after its last step."""
    method, model = work.method, work.model

    def begin_one(memory: Memory, stats: Stats) -> Progress:
        return begin(method, broadcast.params, broadcast.buffers, broadcast.shared, memory, stats)

    def step_one(progress: Progress, batch: Batch, stats: Stats) -> Progress:
        return step(method, model, progress, batch, stats)

    def end_one(progress: Progress, memory: Memory, stats: Stats) -> Result:
        return end(method, broadcast.params, progress, memory, stats)

    memory = stack([task.memory for task in opened])
    stats = Stats(**stack([task.stats._asdict() for task in opened]))
    visits = stack_plans(opened)
    progress: Progress = vmap(begin_one)(memory, stats)
    finished: list[Tree] = []
    for index, active in enumerate(active_counts([task.plan.steps for task in opened])):
        if active < len(progress.loss):
            finished.append(take(progress._asdict(), slice(active, None)))
            progress = Progress(**take(progress._asdict(), slice(active)))
        batch = batch_at(work, visits, index, active)
        progress = vmap(step_one)(progress, batch, Stats(**take(stats._asdict(), slice(active))))
    progress = Progress(**concatenate([progress._asdict(), *reversed(finished)]))
    result: Result = vmap(end_one)(progress, memory, stats)
    return result


def active_counts(steps: Sequence[int]) -> list[int]:
    """How many clients, sorted by falling number of steps, take part in each step."""
    return [sum(count > index for count in steps) for index in range(max(steps, default=0))]


def stack_plans(opened: Sequence[Opened]) -> Visits:
    """Rows, labels and masks of every batch; clients with fewer steps are filled up with batches nobody visits."""
    longest = max(task.plan.steps for task in opened)
    device = opened[0].data.rows.device

    def fill(tensor: Tensor) -> Tensor:
        missing = longest - len(tensor)
        return torch.cat([tensor, tensor.new_zeros(missing, *tensor.shape[1:])])

    positions = [task.plan.positions.to(device) for task in opened]
    return Visits(
        torch.stack([fill(task.data.rows[p]) for task, p in zip(opened, positions, strict=True)]),
        torch.stack([fill(task.data.labels[p]) for task, p in zip(opened, positions, strict=True)]),
        torch.stack([fill(task.plan.mask.to(device)) for task in opened]),
    )


def batch_at(work: Workplace, visits: Visits, index: int, active: int) -> Batch:
    """One step's batches of the first clients, by one gather."""
    inputs = work.federation.inputs(visits.rows[:active, index])
    return Batch(inputs, visits.labels[:active, index], visits.mask[:active, index].to(inputs.dtype))
