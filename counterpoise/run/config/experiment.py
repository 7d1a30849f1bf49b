"""The experiment file: its tables put together, read and checked."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any

from pydantic import BaseModel, Field, ValidationError

from counterpoise.core.local import SCHEDULES, Local
from counterpoise.core.method import Method, build_method, build_named
from counterpoise.engines.choose import EngineSettings
from counterpoise.errors import SHOWN_CHARACTERS, ConfigError, legal_words, short, shorten
from counterpoise.run.config.tables import (
    CheckpointTable,
    CohortTable,
    DataTable,
    EngineTable,
    EvaluateTable,
    FlowerTable,
    LocalTable,
    ModelTable,
    PartitionTable,
    Seed,
    ShotsTable,
    Table,
    TrackTable,
)
from counterpoise.server.cohort import Cohort
from counterpoise.system.toml import override, parse_toml, read_toml

# What may change when a run goes on.
FREE_TABLES = ("checkpoint", "track")
FREE_KEYS = {"engine": ("processes", "max_skipped", "reason"), "flower": ("timeout", "wait")}


class Experiment(Table):
    """One run: data, clients, model, method and engine."""

    seed: Seed = Field(
        0, description="seed of the run: first parameters, partition, cohorts, order of samples"
    )
    rounds: int = Field(50, ge=1, description="communication rounds")
    method: Any = Field(
        "fedavg",
        description="a name, or a list of names and { name = { argument = value } }; see `counterpoise ls methods`",
    )
    data: DataTable = DataTable()
    partition: PartitionTable = PartitionTable()
    cohort: CohortTable = CohortTable()
    model: ModelTable = ModelTable()
    local: LocalTable = LocalTable()
    engine: EngineTable = EngineTable()
    evaluate: EvaluateTable = EvaluateTable()
    checkpoint: CheckpointTable = CheckpointTable()
    flower: FlowerTable = FlowerTable()
    track: TrackTable = TrackTable()

    def tables(self) -> dict[str, Any]:
        """The config as plain tables, defaults included."""
        return self.model_dump(mode="json")

    def binding_tables(self) -> dict[str, Any]:
        """The tables without what may change when a run goes on, since it leaves the result as it is."""
        return binding(self.tables())

    def build_method(self) -> Method:
        try:
            return build_method(self.method)
        except ConfigError as error:  # of parts that do not go together, which say nothing of a config
            raise ConfigError(str(error) if str(error).startswith("method") else f"method: {error}") from None

    def build_local(self) -> Local:
        settings = self.local.model_dump(exclude={"schedule"})
        return Local(**settings, schedule=build_named(SCHEDULES, self.local.schedule))

    def build_cohort(self) -> Cohort:
        return Cohort(**self.cohort.model_dump())

    def engine_settings(self) -> EngineSettings:
        return EngineSettings(**self.engine.model_dump(exclude={"together", "dtype"}))


def binding(tables: Mapping[str, Any]) -> dict[str, Any]:
    """What of the tables of an experiment decides its result."""
    return {
        key: {name: item for name, item in value.items() if name not in FREE_KEYS.get(key, ())}
        if isinstance(value, Mapping)
        else value
        for key, value in tables.items()
        if key not in FREE_TABLES
    }


def with_patience(experiment: Experiment, max_skipped: int | None) -> Experiment:
    """The experiment with another number of rounds that may be skipped in a row, where one is given."""
    if max_skipped is None:
        return experiment
    engine = experiment.engine.model_copy(update={"max_skipped": max_skipped})
    return experiment.model_copy(update={"engine": engine})


def dotted(tables: Mapping[str, Any]) -> dict[str, Any]:
    """Values by the keys that the command line takes, such as ``local.lr``."""
    flat: dict[str, Any] = {}
    for key, value in tables.items():
        inner = value if isinstance(value, Mapping) and key != "method" else None
        flat |= {key: value} if inner is None else {f"{key}.{name}": item for name, item in inner.items()}
    return flat


def load_experiment(path: Path | None, overrides: Iterable[str] = ()) -> Experiment:
    """The experiment of a file with assignments from the command line put in."""
    tables = read_toml(path) if path is not None else {}
    for assignment in overrides:
        tables = override(tables, assignment)
    return make_experiment(tables, short(path) if path is not None else "experiment")


def parse_experiment(text: str, source: str = "experiment") -> Experiment:
    return make_experiment(parse_toml(text, source), source)


def make_experiment(tables: Mapping[str, Any], source: str = "experiment") -> Experiment:
    """The experiment that these tables describe, or a ConfigError that names the key."""
    try:
        return Experiment.model_validate(dict(tables))
    except ValidationError as error:
        raise ConfigError(f"{source}: {_explain(error, tables)}") from None


def _explain(error: ValidationError, tables: Mapping[str, Any]) -> str:
    """One problem in one line: key, what was given, what is legal. Of a union, the branch that got furthest."""
    problem = max(error.errors(), key=lambda one: (len(one["loc"]), one["type"] == "extra_forbidden"))
    place = _place(problem["loc"], tables)
    key, given = shorten(".".join(place), SHOWN_CHARACTERS), f" = {short(problem['input'])}"
    match problem["type"]:
        case "extra_forbidden":
            return f"no key {key}; {legal_words(place[-1], _legal_keys(place[:-1]))}"
        case "missing":
            return f"{key}.{problem['loc'][-1]} is missing"
        case "model_type":
            return f"{key}{given} is not legal: it is a table; legal: {', '.join(f'{key}.{inner}' for inner in _legal_keys(place))}"
    reason = problem["msg"][0].lower() + problem["msg"][1:].replace("dictionary", "table")
    return f"{key}{given} is not legal: {reason}"


def _place(location: Iterable[int | str], tables: Any) -> list[str]:
    """The user's own keys on the way to a problem; pydantic also names the branches of a union."""
    place: list[str] = []
    for step in location:
        items = dict(enumerate(tables)) if isinstance(tables, list) else tables
        if isinstance(items, Mapping) and step in items:
            place.append(str(step))
            tables = items[step]
    return place


def _legal_keys(place: list[str]) -> Iterable[str]:
    """Keys of the table at a place; all tables lie at the top, but for the groups of `evaluate.shots`."""
    if not place:
        return Experiment.model_fields
    table = Experiment.model_fields[place[0]].annotation if len(place) == 1 else ShotsTable
    return table.model_fields if isinstance(table, type) and issubclass(table, BaseModel) else ()
