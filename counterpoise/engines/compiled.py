"""A stacked step compiled as one program, or not at all."""

from __future__ import annotations

import logging

import torch

from counterpoise.client.round import Progress
from counterpoise.core.part import Batch, Stats
from counterpoise.engines.captured import StackedStep

PROGRAMS = 1000  # compiled steps of a process; beyond its limit of 8 torch would run further ones uncompiled


class CompiledStep:
    """The step as one compiled program. One that cannot be compiled whole runs as it is, which a warning says.

    In pieces a compiler would run it unfused without a word, several times slower than the plain step.
    """

    def __init__(self, step: StackedStep, plain: StackedStep, backend: str = "inductor") -> None:
        """`step` is written for a compiler, `plain` gives the same and is quickest without one."""
        self._plain = plain
        self._compiled: StackedStep | None = torch.compile(
            step, dynamic=False, fullgraph=True, backend=backend
        )

    def __call__(self, progress: Progress, batch: Batch, stats: Stats) -> Progress:
        if self._compiled is None:
            return self._plain(progress, batch, stats)
        from torch._dynamo import config  # takes two seconds, which only those who compile wait for
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
