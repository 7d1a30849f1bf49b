"""Several runs of one method, such as its seeds, in one stacked program: each round of all of them is one training."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any

import torch

from counterpoise.client.measure import measure_many
from counterpoise.core.messages import Result
from counterpoise.core.tree import stack, take
from counterpoise.data.federation import Federation
from counterpoise.engines.embedded import EmbeddedEngine
from counterpoise.engines.precision import arithmetic
from counterpoise.engines.stacked import StackedTrainer
from counterpoise.engines.threads import threads
from counterpoise.errors import ConfigError
from counterpoise.run.simulation import Simulation
from counterpoise.server.round import Outcome, ServerState, open_round


@dataclass(frozen=True)
class Together:
    """Simulations that differ in their seeds, partitions, models and learning rates, and in nothing else."""

    simulations: tuple[Simulation, ...]
    trainer: StackedTrainer

    def open(self) -> list[ServerState]:
        return [simulation.open() for simulation in self.simulations]

    def advance(self, states: Sequence[ServerState]) -> list[tuple[ServerState, Outcome]]:
        """One more round of each."""
        settings, engines = self.simulations[0].settings, [engine_of(sim) for sim in self.simulations]
        asked = [sim.tasks(state) for sim, state in zip(self.simulations, states, strict=True)]
        opened = [
            open_round(sim.method, state, tasks, sim.work.local.rate(state.round, sim.rounds))
            for sim, state, tasks in zip(self.simulations, states, asked, strict=True)
        ]
        busy = [run for run, tasks in enumerate(asked) if tasks]
        loads = [engines[run].workload(asked[run], opened[run][0]) for run in busy]
        with threads(settings.threads), arithmetic(settings.precision):
            trained = self.trainer.train(loads) if loads else []
            results: dict[int, Result] = dict(zip(busy, trained, strict=True))
            replies = [
                engines[run].receive(asked[run], results[run]) if run in results else None
                for run in range(len(engines))
            ]
            return [
                sim.conclude(state, reply, outcome)
                for sim, state, reply, (_, outcome) in zip(
                    self.simulations, states, replies, opened, strict=True
                )
            ]

    def evaluate(self, states: Sequence[ServerState]) -> list[dict[str, Any]]:
        """Scores of each; all models pass over the test set side by side."""
        work, settings = self.simulations[0].work, self.simulations[0].settings
        with threads(settings.threads), arithmetic(settings.precision):
            tested = measure_many(
                work.model,
                stack([state.params for state in states]),
                stack([state.buffers for state in states]),
                work.federation.test,
                work.federation.scaling,
            )
        return [
            sim.evaluate(state, take(tested, run))
            for run, (sim, state) in enumerate(zip(self.simulations, states, strict=True))
        ]

    def close(self) -> None:
        for simulation in self.simulations:
            simulation.close()


def join(simulations: Sequence[Simulation]) -> Together:
    """Simulations put together; they must have been made for it, with `share_samples`."""
    first = simulations[0]
    for other in simulations:
        _check_alike(first, other)
    chunk = first.settings.chunk * len(simulations)
    return Together(tuple(simulations), StackedTrainer(first.work, chunk, first.settings.compile is True))


def share_samples(placed: Federation, other: Federation) -> Federation:
    """The other federation on the very samples of the first, so that one tensor serves both."""
    pairs = ((placed.train, other.train), (placed.test, other.test), (placed.validation, other.validation))
    for ours, theirs in pairs:
        if (ours is None) != (theirs is None) or (
            ours is not None and theirs is not None and not _same(ours.x, theirs.x)
        ):
            raise ConfigError("runs can be trained together only on the same samples")
    return replace(
        other, train=placed.train, test=placed.test, validation=placed.validation, scaling=placed.scaling
    )


def engine_of(simulation: Simulation) -> EmbeddedEngine:
    """The simulation's engine, which must be one of this process."""
    if not isinstance(simulation.engine, EmbeddedEngine):
        raise ConfigError("runs can be trained together only in one process")
    return simulation.engine


def _same(ours: torch.Tensor, theirs: torch.Tensor) -> bool:
    return ours is theirs or torch.equal(ours.cpu(), theirs.to("cpu", ours.dtype))


def _check_alike(first: Simulation, other: Simulation) -> None:
    names = [part.name for part in first.method.parts], [part.name for part in other.method.parts]
    shapes = [{name: p.shape for name, p in sim.work.model.params().items()} for sim in (first, other)]
    if names[0] != names[1] or shapes[0] != shapes[1]:
        raise ConfigError("runs can be trained together only with the same method and model")
    if other.settings.name != "stacked" or other.work.federation.train.x is not first.work.federation.train.x:
        raise ConfigError("runs can be trained together only by the stacked engine, on the same samples")
