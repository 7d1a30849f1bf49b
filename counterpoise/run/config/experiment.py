"""The experiment file: its tables, read and checked."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field, replace
from functools import reduce
from pathlib import Path
from typing import Annotated, Any

from counterpoise.core.local import Local
from counterpoise.core.method import Method, build_method
from counterpoise.engines.choose import EngineSettings
from counterpoise.errors import ConfigError, short
from counterpoise.privacy.settings import PrivacySettings
from counterpoise.registry.schema import Count, Seed
from counterpoise.registry.settings import Settings
from counterpoise.run.config.paths import beside
from counterpoise.run.config.tables import (
    CheckpointTable,
    DataTable,
    EvaluateTable,
    FlowerTable,
    ModelTable,
    PartitionTable,
    TrackTable,
)
from counterpoise.server.cohort import Cohort
from counterpoise.system.toml import override, parse_toml, read_toml

# What may change when a run is resumed, since the result does not depend on it.
FREE_TABLES = ("checkpoint", "track")
FREE_KEYS = {"engine": ("processes", "max_skipped", "reason"), "flower": ("timeout", "wait")}


@dataclass(frozen=True)
class Experiment(Settings):
    """One run: data, clients, model, method and engine."""

    seed: Annotated[Seed, "seed of the run: first parameters, partition, cohorts, order of samples"] = 0
    rounds: Annotated[Count, "communication rounds"] = 50
    method: Annotated[
        Any,
        "a name, or a list of names and { name = { argument = value } }; see `counterpoise ls methods`",
    ] = "fedavg"
    data: DataTable = field(default_factory=DataTable)
    partition: PartitionTable = field(default_factory=PartitionTable)
    cohort: Cohort = field(default_factory=Cohort)
    model: ModelTable = field(default_factory=ModelTable)
    local: Local = field(default_factory=Local)
    engine: EngineSettings = field(default_factory=EngineSettings)
    evaluate: EvaluateTable = field(default_factory=EvaluateTable)
    checkpoint: CheckpointTable = field(default_factory=CheckpointTable)
    privacy: PrivacySettings = field(default_factory=PrivacySettings)
    flower: FlowerTable = field(default_factory=FlowerTable)
    track: TrackTable = field(default_factory=TrackTable)

    def __post_init__(self) -> None:
        super().__post_init__()
        if callable(self.local.schedule):
            raise ConfigError(
                "local.schedule of an experiment must be a name, which a file can store, not a function"
            )
        if self.flower.client_counts and self.privacy.in_messages:
            raise ConfigError(
                "flower.client_counts tells the server each client's class counts, which [privacy] hides; use only one of them"
            )

    def binding_tables(self) -> dict[str, Any]:
        """The tables without the keys that may change when a run is resumed."""
        return binding(self.tables())

    def build_method(self) -> Method:
        try:
            return build_method(self.method)
        except ConfigError as error:  # of parts that do not combine: without the config's key
            raise ConfigError(str(error) if str(error).startswith("method") else f"method: {error}") from None


def binding(tables: Mapping[str, Any]) -> dict[str, Any]:
    """The keys of an experiment's tables that decide its result."""
    return {
        key: {name: item for name, item in value.items() if name not in FREE_KEYS.get(key, ())}
        if isinstance(value, Mapping)
        else value
        for key, value in tables.items()
        if key not in FREE_TABLES
    }


def with_max_skipped(experiment: Experiment, max_skipped: int | None) -> Experiment:
    """The experiment with another engine.max_skipped, where one is given."""
    if max_skipped is None:
        return experiment
    return replace(experiment, engine=replace(experiment.engine, max_skipped=max_skipped))


def dotted(tables: Mapping[str, Any]) -> dict[str, Any]:
    """Values by dotted keys, as on the command line: ``local.lr``."""
    flat: dict[str, Any] = {}
    for key, value in tables.items():
        inner = value if isinstance(value, Mapping) and key != "method" else None
        flat |= {key: value} if inner is None else {f"{key}.{name}": item for name, item in inner.items()}
    return flat


def load_experiment(path: Path) -> Experiment:
    """The experiment of a run's folder; paths are taken as they are."""
    return make_experiment(read_toml(path), short(path))


def open_experiment(path: Path, overrides: Iterable[str] = ()) -> Experiment:
    """The experiment of a user's file: its relative paths are looked up beside it, those of overrides are not."""
    tables: dict[str, Any] = reduce(override, overrides, beside(read_toml(path), path))
    return make_experiment(tables, short(path))


def parse_experiment(text: str, source: str = "experiment") -> Experiment:
    return make_experiment(parse_toml(text, source), source)


def make_experiment(tables: Mapping[str, Any], source: str = "experiment") -> Experiment:
    """The experiment that these tables describe, or a ConfigError that names the key."""
    try:
        return Experiment.read(tables)
    except ConfigError as error:
        raise ConfigError(f"{source}: {error}") from None
