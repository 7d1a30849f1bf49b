"""What any engine, also over a network, asks of a client: a first memory, a survey, a measurement, a training."""

from __future__ import annotations

from collections.abc import Sequence

import torch

from counterpoise.client.measure import measure_many
from counterpoise.client.round import enroll
from counterpoise.core.messages import Result
from counterpoise.core.part import Measurement, Pair
from counterpoise.core.tree import Params, Tree, finite_rows, leaves, take, tmap
from counterpoise.engines.memories import Memory
from counterpoise.engines.opening import Trainer, Workload
from counterpoise.engines.workplace import Workplace


def first_memory(work: Workplace, params: Params, buffers: Params) -> Memory:
    """What a client keeps before its first round."""
    return enroll(work.method, params, buffers, len(work.federation.classes))


def survey(work: Workplace, client: int) -> dict[str, Tree]:
    """Part name -> what a client reports before round 0."""
    data, classes = work.federation.client(client), len(work.federation.classes)
    return {part.name: part.survey(data, classes) for part in work.method.parts if part.survey is not None}


def tally(work: Workplace, client: int) -> dict[str, Tree]:
    """Part name -> what a client counts before round 0, of which the server is to learn only sums."""
    data, classes = work.federation.client(client), len(work.federation.classes)
    return {part.name: part.tally(data, classes) for part in work.method.parts if part.tally is not None}


def models_by_client(pairs: Sequence[Pair]) -> dict[int, tuple[int, ...]]:
    """Client -> the models that it is to judge, so that it gets no other."""
    wanted: dict[int, list[int]] = {}
    for client, model in pairs:
        wanted.setdefault(client, []).append(model)
    return {client: tuple(models) for client, models in wanted.items()}


def take_models(stacked: Tree, wanted: Sequence[int]) -> Tree:
    """These of the stacked models; all of them without a copy."""
    given = len(next(leaves(stacked), wanted))
    return stacked if list(wanted) == list(range(given)) else take(stacked, torch.tensor(wanted))


def measure_held_out(
    work: Workplace, client: int, models: Params, buffers: Params, measurement: Measurement
) -> Tree:
    """Sums [K, ...] of a measurement of K stacked models on what a client holds out, if nothing on what it trains on."""
    federation = work.federation
    held = federation.held_out[client] if federation.held_out else federation.clients[client][:0]
    samples = federation.train.take(held if len(held) else federation.clients[client])
    return measure_many(work.model, models, buffers, samples, federation.scaling, measurement)


def own_model(work: Workplace, params: Params, buffers: Params, memory: Memory) -> tuple[Params, Params]:
    """The model that a client would use, by its memory."""
    for part in work.method.parts:
        if part.own is not None:
            params, buffers = part.own(params, buffers, memory.get(part.name, {}))
    return params, buffers


def measure_own(
    work: Workplace, client: int, params: Params, buffers: Params, memory: Memory, measurement: Measurement
) -> Tree:
    """Sums of a measurement of the model that a client would use, by its memory, on what it holds out."""
    params, buffers = own_model(work, params, buffers, memory)
    models, their_buffers = (tmap(lambda leaf: leaf.unsqueeze(0), tree) for tree in (params, buffers))
    sums = measure_held_out(work, client, models, their_buffers, measurement)
    return tmap(lambda leaf: leaf[0], sums)


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
