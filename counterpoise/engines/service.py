"""What any engine, also over a network, asks of a client: a first memory, a survey, a measurement, a training."""

from __future__ import annotations

from collections.abc import Sequence

import torch

from counterpoise.client.measure import measure_many
from counterpoise.client.round import enroll
from counterpoise.core.messages import Result
from counterpoise.core.part import Measurement
from counterpoise.core.tree import Params, Tree, finite_rows, leaves
from counterpoise.engines.memories import Memory
from counterpoise.engines.workplace import Trainer, Workload, Workplace


def first_memory(work: Workplace, params: Params) -> Memory:
    """What a client keeps before its first round."""
    return enroll(work.method, params, len(work.federation.classes))


def survey(work: Workplace, client: int) -> dict[str, Tree]:
    """Part name -> what a client reports before round 0."""
    data, classes = work.federation.client(client), len(work.federation.classes)
    return {part.name: part.survey(data, classes) for part in work.method.parts if part.survey is not None}


def tally(work: Workplace, client: int) -> dict[str, Tree]:
    """Part name -> what a client counts before round 0, of which the server is to learn only sums."""
    data, classes = work.federation.client(client), len(work.federation.classes)
    return {part.name: part.tally(data, classes) for part in work.method.parts if part.tally is not None}


def measure_held_out(
    work: Workplace, client: int, models: Params, buffers: Params, measurement: Measurement
) -> Tree:
    """Sums [K, ...] of a measurement of K stacked models on what a client holds out."""
    federation = work.federation
    held = federation.train.take(federation.held_out[client])
    return measure_many(work.model, models, buffers, held, federation.scaling, measurement)


def train(trainer: Trainer, loads: Sequence[Workload]) -> list[Result]:
    """The results of each run's tasks; the loss is NaN where a client's memory is not finite."""
    return [
        _marked(result, len(load.tasks)) for load, result in zip(loads, trainer.train(loads), strict=True)
    ]


def _marked(result: Result, tasks: int) -> Result:
    """A loss of NaN makes the server reject a reply whose memory is not finite."""
    sound = finite_rows(result.memory, tasks).to(result.loss.device)
    if any(result.private):
        own = [all(bool(leaf.isfinite().all()) for leaf in leaves(kept)) for kept in result.private]
        sound = sound & torch.tensor(own, device=sound.device)
    return result._replace(loss=torch.where(sound, result.loss, torch.nan))
