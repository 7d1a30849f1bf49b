"""Clients one after another: the reference, and the engine to debug with."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass

import torch

from counterpoise.client.chain import Chain
from counterpoise.client.differentiate import direct_gradient, output_gradients
from counterpoise.client.round import Progress, begin, end, loss_of, step
from counterpoise.core.messages import Broadcast, Result, Task
from counterpoise.core.part import Stats
from counterpoise.core.tree import Tree, bytes_of, tmap
from counterpoise.engines.arithmetic import threads
from counterpoise.engines.memories import Memory
from counterpoise.engines.opening import Opened, Workload, batches_of, open_task
from counterpoise.engines.workplace import Workplace, check_replies_fit


@dataclass(frozen=True)
class LoopTrainer:
    """Each task by itself, on one thread, so that results do not depend on how many run in parallel."""

    def train(self, loads: Sequence[Workload]) -> list[Result]:
        with threads(1):
            return [stack_results(train_load(load), len(load.tasks)) for load in loads]

    def close(self) -> None:
        pass


def train_load(load: Workload) -> Iterator[Result]:
    for task, memory in zip(load.tasks, load.memories, strict=True):
        yield train_task(load.work, task, memory, load.broadcast)


def train_task(work: Workplace, task: Task, memory: Memory, broadcast: Broadcast) -> Result:
    """One client's round."""
    return train_opened(work, open_task(work, task, memory, broadcast), broadcast)


def train_opened(work: Workplace, opened: Opened, broadcast: Broadcast) -> Result:
    method, model, stats = work.method, work.model, Stats(**work.place(opened.stats._asdict()))
    progress = begin(method, broadcast.params, broadcast.buffers, broadcast.shared, opened.memory, stats)
    if model.chain is not None and method.descends_plainly:
        progress = _descend(work, model.chain, progress, opened)
    else:
        stepping = stats._replace(seen={})
        for batch in batches_of(work, opened):
            progress = step(method, model, progress, batch, stepping, direct_gradient)
    result = end(method, broadcast.params, progress, opened.memory, stats)
    return result._replace(private=(opened.private,))


def _descend(work: Workplace, chain: Chain, progress: Progress, opened: Opened) -> Progress:
    """All steps of plain SGD, ``y - lr g``, in place on one copy of the model."""
    params, total, lr = tmap(torch.clone, progress.params), progress.loss, float(opened.stats.lr)
    for batch in batches_of(work, opened):
        entered = chain.forward(params, batch.x)
        found = output_gradients(chain, params, entered, loss_of(work.method, batch, progress.slots))
        chain.descend(params, entered, found.logits, found.features, lr)
        for name, extra in found.head.items():
            params[name].sub_(extra, alpha=lr)
        total = total + found.value
    return progress._replace(params=params, loss=total)


def stack_results(results: Iterable[Result], count: int) -> Result:
    """One result with a leading axis over tasks; each is copied to its row as it arrives, so that none is held twice."""
    stacked: Tree = {}
    private: list[Memory] = []
    with torch.no_grad():
        for row, result in enumerate(results):
            tree = result.to_tree()
            private += result.private
            if not stacked:
                check_replies_fit(count, bytes_of(tree))
                stacked = tmap(lambda leaf: leaf.new_empty(count, *leaf.shape), tree)
            tmap(lambda whole, leaf, row=row: whole[row].copy_(leaf), stacked, tree)
    return Result(**stacked, private=tuple(private))
