"""Runs that differ only in seed, partition, initial model and learning rate, trained as one stacked program."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

import torch

from counterpoise.data.federation import Federation
from counterpoise.engines.embedded import EmbeddedEngine
from counterpoise.engines.stacked import StackedTrainer
from counterpoise.errors import ConfigError
from counterpoise.run.simulation import Simulation


def join(simulations: Sequence[Simulation]) -> list[Simulation]:
    """The simulations with one trainer for all; their federations must come from `share_samples`."""
    first = simulations[0]
    for other in simulations:
        _check_alike(first, other)
    chunk = first.settings.chunk * len(simulations)
    trainer = StackedTrainer(first.work, chunk, first.settings.compile is True)
    return [replace(sim, engine=replace(_engine_of(sim), trainer=trainer)) for sim in simulations]


def share_samples(placed: Federation, other: Federation) -> Federation:
    """The other federation on the tensors of the first, so that samples are stored once."""
    pairs = ((placed.train, other.train), (placed.test, other.test), (placed.validation, other.validation))
    for ours, theirs in pairs:
        if (ours is None) != (theirs is None) or (
            ours is not None and theirs is not None and not _same(ours.x, theirs.x)
        ):
            raise ConfigError("runs can be trained together only on the same samples")
    return replace(
        other, train=placed.train, test=placed.test, validation=placed.validation, scaling=placed.scaling
    )


def _engine_of(simulation: Simulation) -> EmbeddedEngine:
    """The simulation's engine, which must run in this process."""
    if not isinstance(simulation.engine, EmbeddedEngine):
        raise ConfigError("runs can be trained together only in one process")
    return simulation.engine


def _same(ours: torch.Tensor, theirs: torch.Tensor) -> bool:
    return ours is theirs or torch.equal(ours.cpu(), theirs.to("cpu", ours.dtype))


def _check_alike(first: Simulation, other: Simulation) -> None:
    if other.patience is not None:
        raise ConfigError("runs that may end early (evaluate.patience) cannot be trained together")
    names = [part.name for part in first.method.parts], [part.name for part in other.method.parts]
    shapes = [{name: p.shape for name, p in sim.work.model.params().items()} for sim in (first, other)]
    if names[0] != names[1] or shapes[0] != shapes[1]:
        raise ConfigError("runs can be trained together only with the same method and model")
    if first.work.model.frozen_sha256 != other.work.model.frozen_sha256:
        raise ConfigError("runs can be trained together only with the same frozen parameters")
    if other.settings.name != "stacked" or other.work.federation.train.x is not first.work.federation.train.x:
        raise ConfigError("runs can be trained together only by the stacked engine, on the same samples")
