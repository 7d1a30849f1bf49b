"""The experiment with every choice made."""

from __future__ import annotations

from dataclasses import replace

from counterpoise.run.config.experiment import Experiment
from counterpoise.run.config.tables import PartitionTable
from counterpoise.run.simulation import Simulation


def settle(experiment: Experiment, simulation: Simulation) -> Experiment:
    """The experiment with every choice made, as the run's folder keeps it."""
    chosen = simulation.settings
    engine = replace(
        experiment.engine,
        name=chosen.name,
        device=chosen.device,
        processes=chosen.processes,
        chunk=chosen.chunk,
        compile=chosen.compile,
        reason=chosen.reason,
    )
    local = replace(experiment.local, batching=simulation.work.local.batching)
    clients = len(simulation.work.federation.clients)
    packed = PartitionTable(name="packed", clients=clients)
    given = replace(experiment.partition, clients=clients)
    partition = packed if experiment.data.name == "pack" else given
    return replace(experiment, engine=engine, local=local, partition=partition)
