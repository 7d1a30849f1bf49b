"""Local steps as one program: captured as a CUDA graph and replayed without kernel launches from Python, or compiled."""

from __future__ import annotations

import gc
import logging
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import TypeAlias

import torch
from torch import Tensor

from counterpoise.client.round import Progress
from counterpoise.core.part import Batch, Stats
from counterpoise.core.tree import Tree, leaves, tmap
from counterpoise.engines.lanes import Schedule, run_lanes

StackedStep: TypeAlias = Callable[[Progress, Batch, Stats], Progress]
BatchAt: TypeAlias = Callable[[Tree, Tensor], Batch]  # visits, index [1] -> the batches of that step

PROGRAMS = 1000  # compiled steps of a process; beyond its limit of 8 torch would run further ones uncompiled
WARM_UP = 3  # runs before capture, in which libraries choose their kernels and a compiled step is compiled


class CapturedSteps:
    """A step captured for one shape of its inputs, which are copied to fixed addresses before each run."""

    def __init__(self, step: StackedStep, batch_at: BatchAt, inputs: Tree) -> None:
        self._step, self._batch_at = step, batch_at
        self._inputs = tmap(lambda leaf: leaf.contiguous().clone(), inputs)
        self._index = torch.zeros(1, dtype=torch.int64, device=next(leaves(inputs)).device)
        self._graph = torch.cuda.CUDAGraph()
        side = torch.cuda.Stream()  # type: ignore[no-untyped-call]
        side.wait_stream(torch.cuda.current_stream())
        with torch.cuda.stream(side):
            for _ in range(WARM_UP):
                self._index.zero_()
                self._advance()
        torch.cuda.current_stream().wait_stream(side)
        self._index.zero_()
        with _no_collection(), torch.cuda.graph(self._graph):
            self._advance()

    def run(self, clients: Tree, visits: Tree, plan: Schedule) -> Progress:
        """All clients after their steps, in the lanes of a plan."""
        tmap(lambda place, value: place.copy_(value), self._inputs["visits"], visits)
        self._index.zero_()
        places = {name: self._inputs[name] for name in ("progress", "stats")}
        return Progress(**run_lanes(places, clients, plan, self._graph.replay))

    def _advance(self) -> None:
        before, stats = Progress(**self._inputs["progress"]), Stats(**self._inputs["stats"])
        after = self._step(before, self._batch_at(self._inputs["visits"], self._index), stats)
        tmap(lambda place, value: place.copy_(value), self._inputs["progress"], after._asdict())
        self._index += 1


@contextmanager
def _no_collection() -> Iterator[None]:
    """Collect garbage now and not while capturing: freeing the graph of another run would abort the capture."""
    was_enabled = gc.isenabled()
    gc.collect()
    gc.disable()
    try:
        yield
    finally:
        if was_enabled:
            gc.enable()


def shape_of(inputs: Tree) -> tuple[object, ...]:
    """What decides whether a captured step fits."""
    return tuple((tuple(leaf.shape), leaf.dtype) for leaf in leaves(inputs))


class CompiledStep:
    """The step compiled as one program; one that cannot be compiled whole runs uncompiled, with a warning.

    With graph breaks it would silently run unfused, several times slower than the plain step.
    """

    def __init__(self, step: StackedStep, plain: StackedStep, backend: str = "inductor") -> None:
        """`step` is written for a compiler, `plain` gives the same and is faster without one."""
        self._plain = plain
        self._compiled: StackedStep | None = torch.compile(
            step, dynamic=False, fullgraph=True, backend=backend
        )

    def __call__(self, progress: Progress, batch: Batch, stats: Stats) -> Progress:
        if self._compiled is None:
            return self._plain(progress, batch, stats)
        from torch._dynamo import config  # slow to import: two seconds
        from torch._dynamo.exc import TorchDynamoException

        try:
            with config.patch(recompile_limit=PROGRAMS):
                return self._compiled(progress, batch, stats)
        except TorchDynamoException as error:
            self._give_up(str(error))
            return self._plain(progress, batch, stats)

    def _give_up(self, reason: str) -> None:
        self._compiled = None
        logging.getLogger("counterpoise").warning(
            "the step of this method cannot be compiled and runs uncompiled: %s",
            reason.strip().partition("\n")[0],
        )
