"""A run and the folder that it is kept in."""

from __future__ import annotations

from typing import Any, NamedTuple

from counterpoise.run.config.experiment import Experiment
from counterpoise.run.simulation import Simulation
from counterpoise.run.store.checkpoint import CheckpointStore
from counterpoise.run.store.folder import RunFolder


class Run(NamedTuple):
    """A simulation that writes to a folder."""

    experiment: Experiment
    simulation: Simulation
    folder: RunFolder
    store: CheckpointStore
    facts: dict[str, Any]
