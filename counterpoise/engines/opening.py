"""How a client's task is opened: its data prepared, its batches planned, its numbers known."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from functools import lru_cache, partial
from typing import NamedTuple, Protocol

import torch
from torch import Tensor

from counterpoise.client.plan import Plan, make_plan
from counterpoise.client.round import starts_from
from counterpoise.core.messages import Broadcast, Result, Task
from counterpoise.core.part import Batch, ClientData, Part, Stats, Visit
from counterpoise.core.rng import generator
from counterpoise.core.tree import Tree, tmap
from counterpoise.core.variants import as_tree
from counterpoise.core.views import ZERO
from counterpoise.data.augment import Draws
from counterpoise.engines.memories import Memory
from counterpoise.engines.workplace import Workplace


class Opened(NamedTuple):
    """A task with its data prepared, its batches planned and its numbers known: all but its memory on the CPU."""

    data: ClientData
    plan: Plan
    draws: Draws  # [S, B, *] what the augmentation will do
    keys: Tensor  # [S] of what the model draws in each step
    stats: Stats
    memory: Memory  # of parts that enroll: it stacks
    private: Memory  # of parts that only prepare: of any shape, and on the CPU


class Trainer(Protocol):
    """One way to train; a result is stacked in the order of its tasks."""

    def train(self, loads: Sequence[Workload]) -> list[Result]:
        """The tasks of one run, or of several, each by itself or all in one program."""

    def close(self) -> None:
        """Stop processes and release memory."""


class Workload(NamedTuple):
    """Tasks of one run, trained together, perhaps with those of other runs."""

    work: Workplace
    tasks: Sequence[Task]
    memories: Sequence[Memory]
    broadcast: Broadcast

    def open(self) -> list[Opened]:
        return [
            open_task(self.work, task, memory, self.broadcast)
            for task, memory in zip(self.tasks, self.memories, strict=True)
        ]


def open_task(work: Workplace, task: Task, memory: Memory, broadcast: Broadcast) -> Opened:
    """Let the parts prepare the client's data, then plan the round."""
    given, kept = work.federation.client(task.client), dict(memory)
    broadcast = _with_own_model(work, memory, broadcast)
    data, observed = given, dict[str, Tree]()
    for part in work.method.parts:
        if part.observe is not None:
            seen = part.observe(given, _visit(work, part, task, kept, broadcast))
            observed.update({part.name: seen} if seen else {})
        if part.prepare is not None:
            data, own = part.prepare(data, _visit(work, part, task, kept, broadcast))
            kept.update({part.name: own} if own else {})
    stream = generator(work.seed, "plan", broadcast.round, task.client)
    plan = make_plan(data, work.local.batch_size, work.local.epochs, work.local.batching, stream)
    draws = draw_augmentation(work, plan, generator(work.seed, "augment", broadcast.round, task.client))
    keys = draw_keys(work, plan, broadcast.round, task.client)
    stats = _stats(work, task, given, data, plan, broadcast.lr)
    enrolled = {part.name for part in work.method.parts if part.enroll is not None}
    stacking = work.place({name: own for name, own in kept.items() if name in enrolled})
    private = {name: own for name, own in kept.items() if name not in enrolled}
    return Opened(data, plan, draws, keys, stats._replace(seen=observed), stacking, private)


def _with_own_model(work: Workplace, memory: Memory, broadcast: Broadcast) -> Broadcast:
    """What a client looks at its samples with: the received model, or its own where it trains alone."""
    if (alone := work.method.alone) is None:
        return broadcast
    own = {alone.name: work.place(memory[alone.name])}
    params, buffers = starts_from(work.method, broadcast.params, broadcast.buffers, own)
    return broadcast._replace(params=params, buffers=buffers)


def _visit(work: Workplace, part: Part, task: Task, memory: Memory, broadcast: Broadcast) -> Visit:
    shared, kept = (tmap(Tensor.cpu, of.get(part.name, {})) for of in (broadcast.shared, memory))
    stream = generator(work.seed, f"prepare {part.name}", broadcast.round, task.client)
    return Visit(shared, kept, task.knobs, stream, partial(work.outputs_on, broadcast), work.steps)


def draw_augmentation(work: Workplace, plan: Plan, stream: torch.Generator) -> Draws:
    """All randomness of a round's augmentation, ahead of training."""
    if work.augment is None:
        return {}
    drawn = work.augment.draw(plan.positions.numel(), work.federation.input_shape, stream)
    return tmap(lambda d: d.unflatten(0, plan.positions.shape), drawn)


def draw_keys(work: Workplace, plan: Plan, round: int, client: int) -> Tensor:
    """[S] A key for each step, from which a model with dropout draws; zeros where it draws nothing."""
    if not work.model.draws:
        return _no_keys(plan.steps)
    stream = generator(work.seed, "layers", round, client)
    return torch.randint(1, 1 << 62, (plan.steps,), generator=stream)


@lru_cache(maxsize=1024)
def _no_keys(steps: int) -> Tensor:
    return torch.zeros(steps, dtype=torch.int64)


def _stats(work: Workplace, task: Task, given: ClientData, data: ClientData, plan: Plan, lr: float) -> Stats:
    classes = len(work.federation.classes)
    counts = torch.bincount(data.labels, minlength=classes)
    owned = counts if data is given else torch.bincount(given.labels, minlength=classes)
    knobs = {name: work.like(value) for name, value in task.knobs.items()}
    momentum, epochs, batch_size = work.local_numbers
    steps, rate = work.like(plan.steps), work.like(lr * data.rate)
    moved = _moved(given, data, classes) if work.method.relabels else ZERO
    numbers = as_tree(work.numbers, work.like)
    return Stats(counts, steps, rate, momentum, knobs, owned, epochs, batch_size, moved, numbers)


def _moved(given: ClientData, data: ClientData, classes: int) -> Tensor:
    """[C, C] samples by class before and after, without those that kept theirs; each once, however often it is visited."""
    rows, first = given.rows.sort()
    visited = torch.unique(torch.stack([data.rows, data.labels]), dim=1)
    before = given.labels[first[torch.searchsorted(rows, visited[0].contiguous())]]
    flow = torch.bincount(before * classes + visited[1], minlength=classes**2).view(classes, classes)
    return flow - flow.diagonal().diag()


def batches_of(work: Workplace, opened: Opened) -> Iterator[Batch]:
    """The planned batches without their padding, which always comes last.

    A model that draws keeps it: what it draws may go by the size of the batch, and stacked clients draw for a whole one. Not
    one that also mixes the samples of a batch, which it would spoil.
    """
    whole = work.model.draws and not work.model.mixes
    visits = work.place(visits_of(opened))
    masks = visits["mask"].to(work.model.dtype)
    for index, size in enumerate(opened.plan.mask.sum(1).tolist()):
        size = masks.shape[1] if whole else size
        rows, labels, draws = (visits[name] for name in ("rows", "labels", "draws"))
        inputs = work.inputs(rows[index, :size], tmap(lambda d, s=size, i=index: d[i, :s], draws))
        yield Batch(
            inputs, labels[index, :size], masks[index, :size], visits["passed"][index], visits["keys"][index]
        )


def visits_of(opened: Opened) -> Tree:
    """Rows, labels, mask [S, B], draws, the share of the round that is over and the key [S], of every planned batch."""
    data, plan = opened.data, opened.plan
    rows, labels = data.rows[plan.positions], data.labels[plan.positions]
    passed = _passed(plan.steps, opened.stats.lr.dtype)
    planned = {"rows": rows, "labels": labels, "mask": plan.mask, "draws": opened.draws}
    return {**planned, "passed": passed, "keys": opened.keys}


@lru_cache(maxsize=1024)
def _passed(steps: int, dtype: torch.dtype) -> Tensor:
    """[S] share of the steps that are done before each of them."""
    return (torch.arange(steps) / max(steps, 1)).to(dtype)
