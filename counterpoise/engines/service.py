"""What a client can be asked for, by any engine and over any wire: a first memory, a survey, a measurement, a training."""

from __future__ import annotations

from collections.abc import Sequence

import torch

from counterpoise.client.measure import measure_many
from counterpoise.client.round import enroll
from counterpoise.core.messages import Result
from counterpoise.core.part import Measurement
from counterpoise.core.tree import Params, Tree, finite_rows
from counterpoise.engines.memories import Memory
from counterpoise.engines.workplace import Trainer, Workload, Workplace


def first_memory(work: Workplace, params: Params) -> Memory:
    """What a client keeps before its first round."""
    return enroll(work.method, params, len(work.federation.classes))


def survey(work: Workplace, client: int) -> dict[str, Tree]:
    """Part name -> what a client says before round 0."""
    data, classes = work.federation.client(client), len(work.federation.classes)
    return {part.name: part.survey(data, classes) for part in work.method.parts if part.survey is not None}


def measure_held_out(
    work: Workplace, client: int, models: Params, buffers: Params, measurement: Measurement
) -> Tree:
    """Sums [K, ...] of a measurement of K stacked models on what a client holds out."""
    federation = work.federation
    held = federation.train.take(federation.held_out[client])
    return measure_many(work.model, models, buffers, held, federation.scaling, measurement)


def train(trainer: Trainer, loads: Sequence[Workload]) -> list[Result]:
    """The results of each run's tasks, with a loss that marks those whose memory must never be accepted."""
    return [
        _marked(result, len(load.tasks)) for load, result in zip(loads, trainer.train(loads), strict=True)
    ]


def _marked(result: Result, tasks: int) -> Result:
    """A memory that is not finite makes the reply one that the server refuses."""
    sound = finite_rows(result.memory, tasks).to(result.loss.device)
    return result._replace(loss=torch.where(sound, result.loss, torch.nan))
