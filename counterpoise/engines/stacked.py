"""Many clients at once: the same begin, step and end under ``vmap`` over stacked clients."""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial
from itertools import accumulate

import torch
from torch import Tensor, vmap

from counterpoise.client.functional import FunctionalModel
from counterpoise.client.round import Progress, begin, end, step
from counterpoise.core.messages import Broadcast, Result
from counterpoise.core.method import Method
from counterpoise.core.part import Batch, Stats
from counterpoise.core.tree import Params, Tree, concatenate, stack, take, tmap
from counterpoise.core.variants import Variants
from counterpoise.engines.captured import CapturedSteps, CompiledStep, StackedStep, shape_of
from counterpoise.engines.lanes import choose_width, schedule
from counterpoise.engines.opening import Opened, Workload, visits_of
from counterpoise.engines.workplace import Workplace
from counterpoise.errors import ConfigError

MOST_CAPTURED = 8  # shapes of chunks that are kept captured; further ones run uncaptured


class StackedTrainer:
    """All tasks of a chunk at once; a chunk bounds the memory, and out of memory it is halved."""

    def __init__(
        self, work: Workplace, chunk: int, compile: bool = False, variants: Variants | None = None
    ) -> None:
        self.work, self.chunk, self._variants = work, chunk, variants
        plain = vmap(self._step_of(work.model))
        self._step: StackedStep = (
            CompiledStep(vmap(self._step_of(work.model.patched())), plain) if compile else plain
        )
        self._captured: dict[tuple[int, tuple[object, ...]], CapturedSteps] = {}  # by lanes and shapes

    def train(self, loads: Sequence[Workload]) -> list[Result]:
        """The tasks of several runs at once: runs of one method on the same samples, each from its own model."""
        opened = [task for load in loads for task in load.open()]
        owners = [run for run, load in enumerate(loads) for _ in load.tasks]
        # Longest first: clients of similar length share a chunk, and those still active are always a prefix.
        order = sorted(range(len(opened)), key=lambda k: -opened[k].plan.steps)
        received = self.work.place(_received([load.broadcast for load in loads]))
        while True:
            try:
                trained = self._train(
                    [opened[k] for k in order], [owners[k] for k in order], received, len(loads)
                )
                break
            except torch.cuda.OutOfMemoryError:
                if self.chunk == 1:
                    raise
                self.chunk = -(-self.chunk // 2)
                self._captured.clear()
                torch.cuda.empty_cache()
            except RuntimeError as error:
                if words := _vmap_words(error):
                    raise ConfigError(
                        f'engine.name = "stacked" cannot train this model: {words}; use "loop" or "auto"'
                    ) from error
                raise
        if order != sorted(order):
            trained = take(trained, torch.tensor(order).argsort().to(self.work.device))
        ends = list(accumulate(len(load.tasks) for load in loads))
        mine = [slice(end - len(load.tasks), end) for load, end in zip(loads, ends, strict=True)]
        return [
            Result(
                **(trained if len(loads) == 1 else take(trained, part)),
                private=tuple(task.private for task in opened[part]),
            )
            for part in mine
        ]

    def close(self) -> None:
        self._captured.clear()

    def _method(self, stats: Stats) -> Method:
        """The method of a client's run: runs trained together may differ in its numbers."""
        return (
            self.work.method
            if self._variants is None
            else self._variants.method(stats.numbers, self.work.method)
        )

    def _step_of(self, model: FunctionalModel) -> StackedStep:
        if self._variants is None:  # plainly, for a compiler
            return partial(step, self.work.method, model)
        return lambda progress, batch, stats: step(self._method(stats), model, progress, batch, stats)

    def _begin(self, params: Params, buffers: Params, shared: Tree, memory: Tree, stats: Stats) -> Progress:
        return begin(self._method(stats), params, buffers, shared, memory, stats)

    def _end(self, received: Params, progress: Progress, memory: Tree, stats: Stats) -> Result:
        return end(self._method(stats), received, progress, memory, stats)

    def _train(self, opened: Sequence[Opened], owners: Sequence[int], received: Tree, runs: int) -> Tree:
        pieces = [slice(first, first + self.chunk) for first in range(0, len(opened), self.chunk)]
        return concatenate(
            [self._train_chunk(opened[piece], owners[piece], received, runs).to_tree() for piece in pieces]
        )

    def _train_chunk(
        self, opened: Sequence[Opened], owners: Sequence[int], received: Tree, runs: int
    ) -> Result:
        """Train clients sorted by falling number of steps."""
        memory = stack([task.memory for task in opened])
        stats = Stats(**self.work.place(stack([task.stats._asdict() for task in opened])))
        # Clients of one run share what they received; of several, each has its own run's.
        axis = None if runs == 1 else 0
        own = received if runs == 1 else take(received, torch.tensor(owners).to(self.work.device))
        progress: Progress = vmap(self._begin, (axis, axis, axis, 0, 0))(
            own["params"], own["buffers"], own["shared"], memory, stats
        )
        steps = [task.plan.steps for task in opened]
        visits = self.work.place(stack_plans(opened, max(steps)))
        # Where no client takes a step there is nothing to capture.
        advance = self._replay if self.work.device.type == "cuda" and max(steps) else self._walk
        progress = advance(progress, stats._replace(seen={}), visits, steps)
        result: Result = vmap(self._end, (axis, 0, 0, 0))(own["params"], progress, memory, stats)
        return result

    def _walk(self, progress: Progress, stats: Stats, visits: Tree, steps: Sequence[int]) -> Progress:
        """Step by step; each client leaves the stack after its last step."""
        finished: list[Tree] = []
        for index, active in enumerate(active_counts(steps)):
            if active < len(progress.loss):
                finished.append(take(progress._asdict(), slice(active, None)))
                progress = Progress(**take(progress._asdict(), slice(active)))
            batch = batch_of_visits(self.work, tmap(lambda v, i=index, a=active: v[:a, i], visits))
            progress = self._step(progress, batch, Stats(**take(stats._asdict(), slice(active))))
        return Progress(**concatenate([progress._asdict(), *reversed(finished)]))

    def _replay(self, progress: Progress, stats: Stats, visits: Tree, steps: Sequence[int]) -> Progress:
        """One captured step, replayed over lanes of clients: its cost follows the sum of the steps."""
        plan = schedule(steps, choose_width(steps, sorted({width for width, _ in self._captured})))
        clients = {"progress": progress._asdict(), "stats": stats._asdict()}
        # Padded to a power of two, so that a captured step fits the next round too.
        along = plan.visits(visits, 1 << (plan.length - 1).bit_length())
        lanes = tmap(lambda leaf: leaf[: len(plan.lanes)], clients)
        inputs = {**lanes, "visits": along}
        key = len(plan.lanes), shape_of(inputs)
        if key not in self._captured:
            if len(self._captured) == MOST_CAPTURED:
                return self._walk(progress, stats, visits, steps)
            self._captured[key] = CapturedSteps(self._step, self._batch_at, inputs)
        return self._captured[key].run(clients, along, plan)

    def _batch_at(self, visits: Tree, index: Tensor) -> Batch:
        return batch_of_visits(self.work, tmap(lambda v: v.index_select(1, index).squeeze(1), visits))


def _vmap_words(error: RuntimeError) -> str:
    """What vmap says of a model that it cannot run, in one line; empty for other errors."""
    words = next(iter(str(error).strip().splitlines()), "")
    return words if words.startswith("vmap") or "atching rule" in words else ""


def _received(broadcasts: Sequence[Broadcast]) -> Tree:
    """The broadcast of one run, or those of several, stacked."""
    sent = [broadcast.to_tree() for broadcast in broadcasts]
    return sent[0] if len(sent) == 1 else stack(sent)


def active_counts(steps: Sequence[int]) -> list[int]:
    """How many clients, sorted by falling number of steps, take part in each step."""
    return [sum(count > index for count in steps) for index in range(max(steps, default=0))]


def stack_plans(opened: Sequence[Opened], length: int) -> Tree:
    """Rows, labels, masks [K, S, B] and draws of every batch; shorter plans are filled up with batches that are never trained on."""

    def fill(tensor: Tensor) -> Tensor:
        return torch.cat([tensor, tensor.new_zeros(length - len(tensor), *tensor.shape[1:])])

    return stack([tmap(fill, visits_of(task)) for task in opened])


def batch_of_visits(work: Workplace, visits: Tree) -> Batch:
    """The batches [K, B] of one step, by one gather."""
    inputs = work.inputs(visits["rows"], visits["draws"])
    return Batch(
        inputs, visits["labels"], visits["mask"].to(work.model.dtype), visits["passed"], visits["keys"]
    )
