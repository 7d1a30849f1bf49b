"""Runs that differ only in seed, partition, initial model, learning rate and numbers of their method, trained as one stacked program."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

import torch

from counterpoise.client.measure import outputs_of
from counterpoise.core.local import Local
from counterpoise.core.variants import Variants, find_variants
from counterpoise.data.federation import Federation
from counterpoise.engines.embedded import EmbeddedEngine
from counterpoise.engines.stacked import StackedTrainer
from counterpoise.errors import ConfigError
from counterpoise.run.simulation import Simulation, train_round


def join(simulations: Sequence[Simulation]) -> list[Simulation]:
    """The simulations with one trainer for all; their federations must come from `share_samples`."""
    first = simulations[0]
    for other in simulations:
        _check_alike(first, other)
    variants = find_variants([sim.method.spec for sim in simulations])
    chunk, compiled = first.settings.chunk * len(simulations), first.settings.compile is True
    trainer = StackedTrainer(first.work, chunk, compiled, variants if variants.differing else None)
    joined = [_vary(sim, variants, trainer) for sim in simulations]
    if variants.differing:
        _try_variants(joined)
    return joined


def _vary(simulation: Simulation, variants: Variants, trainer: StackedTrainer) -> Simulation:
    """The simulation with the numbers of its own method, trained by a program for all."""
    work = replace(simulation.work, numbers=variants.numbers(simulation.method.spec))
    return replace(simulation, work=work, engine=replace(_engine_of(simulation), work=work, trainer=trainer))


def _try_variants(simulations: Sequence[Simulation]) -> None:
    """Train one client of each run and forget it: a method that decides by a number cannot have a number for each client."""
    first = simulations[0]
    if first.settings.compile is True:
        raise ConfigError("runs of different numbers of a method can be trained together only uncompiled")
    for other in simulations[1:]:
        _check_same_function(first, other)
    states = [sim.open() for sim in simulations]
    asked = [sim.tasks(state)[:1] for sim, state in zip(simulations, states, strict=True)]
    try:
        with first.settings.computing():  # a step that is captured here is replayed in the run
            train_round(simulations, states, asked)
    except (RuntimeError, TypeError, ValueError) as error:
        raise ConfigError(
            f"method {first.method.name} goes by its numbers otherwise than by arithmetic, so that runs of different ones cannot be trained together"
        ) from error


def _check_same_function(first: Simulation, other: Simulation) -> None:
    """A number that changes the model itself would be lost: there is one model for all."""
    rows, scaling = first.work.federation.train.x[:8], first.work.federation.scaling
    params, buffers = first.work.model.params(), first.work.model.buffers()
    said = [outputs_of(sim.work.model, params, buffers, rows, scaling).logits for sim in (first, other)]
    if not torch.equal(*said):
        raise ConfigError("runs can be trained together only with the same model")


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
    if _steps_of(first) != _steps_of(other):
        raise ConfigError("runs can be trained together only with the same [local], but for lr and schedule")
    if first.work.model.frozen_sha256 != other.work.model.frozen_sha256:
        raise ConfigError("runs can be trained together only with the same frozen parameters")
    if other.settings.name != "stacked" or other.work.federation.train.x is not first.work.federation.train.x:
        raise ConfigError("runs can be trained together only by the stacked engine, on the same samples")


def _steps_of(simulation: Simulation) -> Local:
    """What local steps are like, apart from their rate, which each run has by round."""
    return replace(simulation.work.local, lr=1.0, schedule="constant")
