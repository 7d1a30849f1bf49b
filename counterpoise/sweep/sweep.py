"""The sweep file: a base experiment, methods, seeds, what varies, and how methods are tuned."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Annotated, Any, Literal

from pydantic import AfterValidator, BeforeValidator, Field, ValidationError

from counterpoise.core.method import build_method
from counterpoise.errors import SHOWN_CHARACTERS, ConfigError, legal_words, short, shorten
from counterpoise.metrics.catalogue import comparable
from counterpoise.run.config.experiment import make_experiment
from counterpoise.run.config.tables import Seed, Table
from counterpoise.sweep.specs import Grid, flat_grid, label_of
from counterpoise.system.toml import override, parse_toml, read_toml, write_toml


def known_score(word: str) -> str:
    if word not in (known := comparable()):
        raise ValueError(legal_words(word, known))
    return word


def counted(seeds: Any) -> Any:
    """Seeds 0 to n - 1 of a number; a list stays as it is."""
    if isinstance(seeds, int) and not isinstance(seeds, bool):
        if not 1 <= seeds <= 100_000:
            raise ValueError("legal: a number from 1 to 100000, or a list of seeds")
        return list(range(seeds))
    if isinstance(seeds, list) and len({*map(str, seeds)}) < len(seeds):
        raise ValueError("a seed is listed twice")
    return seeds


Score = Annotated[str, AfterValidator(known_score)]
Values = Annotated[Grid, BeforeValidator(flat_grid)]
Seeds = Annotated[list[Seed], BeforeValidator(counted), Field(min_length=1)]


class MethodEntry(Table):
    """A method of the sweep, with the local settings that are its own."""

    name: str = Field(min_length=1, description="label of the method; by default its names and arguments")
    method: Any = Field(description="a name, or a list of names and { name = { argument = value } }")
    local: dict[str, Any] = Field({}, description="keys of [local] that differ for this method")
    grid: Values = Field({}, description="values to tune over, beside those of [tune.grid]")


def as_entry(method: Any) -> Any:
    """A method as the sweep keeps it: the spec alone, or a table that holds it under `method`."""
    entry = method if isinstance(method, Mapping) and "method" in method else {"method": method}
    build_method(entry["method"])
    return {"name": label_of(entry["method"]), **entry}


class Tune(Table):
    """How every method is tuned: on the validation split, with the same budget."""

    grid: Values = Field(
        {}, description='values by key: "local.lr", or "method.fedprox.mu" for methods with fedprox'
    )
    score: Score = Field("balanced_accuracy", description="score on the validation split, in the last round")
    seeds: Seeds = Field([0], description="seeds of each setting, a number or a list")
    rounds: int | None = Field(None, ge=1, description="rounds of a tuning run; by default those of [base]")
    budget: int = Field(10, ge=1, le=10_000, description="largest number of settings tried for each method")


class TableOptions(Table):
    """What the table of the sweep shows."""

    score: Score = Field("balanced_accuracy", description="the score that methods are tested on")
    at: Literal["last", "best", "mean_last_10"] = Field("last", description="the evaluation it is read at")
    baseline: str | None = Field(
        None, description="method that the others are compared with; by default fedavg, else the first"
    )
    target: float | None = Field(
        None, gt=0, le=1, description="score that rounds, bytes and seconds are counted to"
    )


class Sweep(Table):
    """Methods x problems x seeds, paired by seed."""

    base: dict[str, Any] = Field({}, description="tables of an experiment that all runs share")
    methods: list[Annotated[MethodEntry, BeforeValidator(as_entry)]] = Field(
        min_length=1, description="methods to compare"
    )
    seeds: Seeds = Field([0, 1, 2, 3, 4], description="a number of seeds, or a list of them")
    vary: Values = Field({}, description="keys with lists of values; problems are their product")
    problems: list[dict[str, Any]] = Field(
        [], description="or: a table of keys for each problem, with a name"
    )
    tune: Tune | None = Field(None, description="left out: methods run as they are given")
    table: TableOptions = TableOptions()

    def tables(self) -> dict[str, Any]:
        """The sweep as plain tables, with labels, seeds and options written out."""
        return self.model_dump(mode="json")


def load_sweep(path: Path, overrides: Iterable[str] = ()) -> Sweep:
    """The sweep of a file with assignments from the command line put in."""
    tables = read_toml(path)
    for assignment in overrides:
        tables = override(tables, assignment)
    return make_sweep(tables, short(path))


def parse_sweep(text: str, source: str = "sweep") -> Sweep:
    return make_sweep(parse_toml(text, source), source)


def write_sweep(sweep: Sweep) -> str:
    return write_toml(sweep.tables())


def make_sweep(tables: Mapping[str, Any], source: str = "sweep") -> Sweep:
    """The sweep that these tables describe, or a ConfigError that names the key."""
    if "method" in tables and "methods" not in tables:
        raise ConfigError(
            f"{source} is one experiment, which `counterpoise run` takes; a sweep has methods = [...], and the rest under [base]"
        )
    try:
        sweep = Sweep.model_validate(dict(tables))
        check_sweep(sweep)
        return sweep
    except ValidationError as error:
        raise ConfigError(f"{source}: {_explain(error)}") from None
    except ConfigError as error:
        raise ConfigError(f"{source}: {error}") from None


def check_sweep(sweep: Sweep) -> None:
    """What no type can say."""
    for key in ("method", "seed"):
        if key in sweep.base:
            raise ConfigError(f"base.{key} is not legal in a sweep; legal: {key}s = [...] before [base]")
    make_experiment(sweep.base, "base")
    if sweep.vary and sweep.problems:
        raise ConfigError("vary and problems are both given; legal: one of the two")
    names = [entry.name for entry in sweep.methods]
    for name in names:
        if names.count(name) > 1:
            raise ConfigError(
                f"two methods are called {short(name)}; give one of them another name: {{ name = ..., method = ... }}"
            )
    if sweep.table.baseline not in (None, *names):
        raise ConfigError(
            f"table.baseline = {short(sweep.table.baseline)} is no method of the sweep; {legal_words(str(sweep.table.baseline), names)}"
        )


def _explain(error: ValidationError) -> str:
    """One problem in one line: key, what was given, what is legal."""
    problem = error.errors()[0]
    *place, last = problem["loc"]
    key = shorten(".".join(map(str, problem["loc"])), SHOWN_CHARACTERS)
    if problem["type"] == "extra_forbidden":
        return f"no key {key}; {legal_words(str(last), _legal_keys(place))}"
    if problem["type"] == "missing":
        return f"{key} is missing"
    reason = problem["msg"].removeprefix("Value error, ").replace("dictionary", "table")
    return f"{key} = {short(problem['input'])} is not legal: {reason[0].lower()}{reason[1:]}"


def _legal_keys(place: list[int | str]) -> Iterable[str]:
    tables: dict[str, type[Table]] = {"methods": MethodEntry, "tune": Tune, "table": TableOptions}
    table: type[Table] = tables[str(place[0])] if place else Sweep
    return table.model_fields
