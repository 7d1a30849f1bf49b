"""The sweep file: a base experiment, methods, seeds, problems, and how methods are tuned."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field
from functools import reduce
from pathlib import Path
from typing import Annotated, Any, Literal

from counterpoise.core.method import build_method
from counterpoise.errors import ConfigError, legal_words, short
from counterpoise.metrics.catalogue import comparable
from counterpoise.registry.schema import Count, Interval, Seed
from counterpoise.registry.settings import Settings
from counterpoise.run.config.experiment import make_experiment
from counterpoise.run.config.paths import beside_sweep
from counterpoise.sweep.specs import Grid, flat_grid, label_of
from counterpoise.system.toml import override, read_toml, write_toml

MOST_SEEDS = 100_000
MOST_FOLDS = 1_000
Table = dict[str, Any]


@dataclass(frozen=True)
class MethodEntry(Settings, table="methods"):
    """A method of the sweep, with its own local settings and grid."""

    name: Annotated[str, "label of the method; by default its names and arguments"]
    method: Annotated[Any, "a name, or a list of names and { name = { argument = value } }"]
    local: Annotated[Table, "keys of [local] that differ for this method"] = field(default_factory=dict)
    grid: Annotated[Grid, "values to tune over, beside those of [tune.grid]"] = field(default_factory=dict)


@dataclass(frozen=True)
class Tune(Settings, table="tune"):
    """How every method is tuned: on the validation split, with the same budget."""

    grid: Annotated[Grid, 'values by key: "local.lr", or "method.fedprox.mu" for methods with fedprox'] = (
        field(default_factory=dict)
    )
    score: Annotated[str, "score on the validation split, in the last round"] = "balanced_accuracy"
    seeds: Annotated[list[Seed], "seeds of each setting, a number or a list"] = field(
        default_factory=lambda: [0]
    )
    rounds: Annotated[Count | None, "rounds of a tuning run; by default those of [base]"] = None
    budget: Annotated[int, Interval(1, 10_000), "largest number of settings tried for each method"] = 10


@dataclass(frozen=True)
class TableOptions(Settings, table="table"):
    """What the table of the sweep shows."""

    score: Annotated[str, "the score that methods are tested on"] = "balanced_accuracy"
    at: Annotated[Literal["last", "best", "mean_last_10"], "the evaluation it is read at"] = "last"
    baseline: Annotated[
        str | None, "method that the others are compared with; by default fedavg, else the first"
    ] = None
    target: Annotated[
        Annotated[float, Interval(0, 1, open_low=True)] | None,
        "score that rounds, bytes and seconds are counted to; by default 95 % of the best method's mean at the end",
    ] = None


@dataclass(frozen=True)
class Sweep(Settings):
    """Methods x problems x seeds, paired by seed."""

    methods: Annotated[list[MethodEntry], "methods to compare"]
    base: Annotated[Table, "tables of an experiment that all runs share"] = field(default_factory=dict)
    seeds: Annotated[list[Seed], "a number of seeds, or a list of them"] = field(
        default_factory=lambda: [0, 1, 2, 3, 4]
    )
    repeats: Annotated[
        Literal["runs", "splits", "folds"],
        "what the seeds repeat: runs on the same test set; splits: each seed is data.seed too, which draws the test set of own data; or folds: k seeds are the k folds of a cross-validation of own data, so that each row tests once",
    ] = "runs"
    vary: Annotated[Grid, "keys with lists of values; problems are their product"] = field(
        default_factory=dict
    )
    problems: Annotated[list[Table], "or: a table of keys for each problem, with a name"] = field(
        default_factory=list
    )
    tune: Annotated[Tune | None, "without it, methods run as given"] = None
    table: TableOptions = field(default_factory=TableOptions)

    @property
    def scores(self) -> dict[str, str]:
        """The scores that runs are judged by, by the key that names them."""
        return {"table.score": self.table.score} | ({"tune.score": self.tune.score} if self.tune else {})


def load_sweep(path: Path) -> Sweep:
    """The sweep of a sweep's folder; paths are taken as they are."""
    return make_sweep(read_toml(path), short(path))


def open_sweep(path: Path, overrides: Iterable[str] = ()) -> Sweep:
    """The sweep of a user's file: its relative paths are looked up beside it, those of overrides are not."""
    tables: Table = reduce(override, overrides, beside_sweep(read_toml(path), path))
    return make_sweep(tables, short(path))


def write_sweep(sweep: Sweep) -> str:
    return write_toml(sweep.tables())


def make_sweep(tables: Mapping[str, Any], source: str = "sweep") -> Sweep:
    """The sweep that these tables describe, or a ConfigError that names the key."""
    if "method" in tables and "methods" not in tables:
        raise ConfigError(
            f"{source} is one experiment, for `counterpoise run`; a sweep needs methods = [...], and the rest under [base]"
        )
    try:
        sweep = Sweep.read(expand_short_forms(tables))
        check_sweep(sweep)
        return sweep
    except ConfigError as error:
        raise ConfigError(f"{source}: {error}") from None


def expand_short_forms(tables: Mapping[str, Any]) -> Table:
    """The tables with short forms expanded: numbers of seeds, methods by name only, nested grids."""
    full = {**tables} | _with(tables, "seeds", count_seeds) | _with(tables, "vary", flat_grid)
    if isinstance(methods := tables.get("methods"), list):
        full["methods"] = [as_entry(method) for method in methods]
    if isinstance(tune := tables.get("tune"), Mapping):
        seeds = _with(tune, "seeds", lambda given: count_seeds(given, "tune.seeds"))
        full["tune"] = {**tune} | seeds | _with(tune, "grid", flat_grid)
    return full


def _with(table: Mapping[str, Any], key: str, convert: Callable[[Any], Any]) -> Table:
    return {key: convert(table[key])} if key in table else {}


def count_seeds(seeds: Any, key: str = "seeds") -> Any:
    """Seeds 0 to n - 1 of a number; a list stays as it is."""
    if isinstance(seeds, int) and not isinstance(seeds, bool) and 1 <= seeds <= MOST_SEEDS:
        return list(range(seeds))
    if not isinstance(seeds, list) or not seeds:
        raise ConfigError(
            f"{key} must be a number from 1 to {MOST_SEEDS}, or a list of seeds, not {short(seeds)}"
        )
    if len({*map(str, seeds)}) < len(seeds):
        raise ConfigError(f"{key} = {short(seeds)}: a seed is listed twice")
    return seeds


def as_entry(method: Any) -> Any:
    """A method as a table; it may be given as a spec only, or as a table with the spec under `method`."""
    entry = method if isinstance(method, Mapping) and "method" in method else {"method": method}
    build_method(entry["method"])
    return {"name": label_of(entry["method"]), **entry, **_with(entry, "grid", flat_grid)}


def check_sweep(sweep: Sweep) -> None:
    """Checks across keys."""
    for key in ("method", "seed"):
        if key in sweep.base:
            raise ConfigError(f"base.{key} must be given as {key}s = [...] before [base] in a sweep")
    make_experiment(sweep.base, "base")
    if sweep.repeats != "runs" and sweep.tune is not None:
        raise ConfigError(
            f'repeats = "{sweep.repeats}" does not go with [tune]: settings would be chosen on rows that test in other {sweep.repeats}; leave one of them out'
        )
    if sweep.repeats == "folds" and not 1 < len(sweep.seeds) <= MOST_FOLDS:
        raise ConfigError(
            f'repeats = "folds" needs 2 to {MOST_FOLDS} seeds, one for each fold, not {len(sweep.seeds)}'
        )
    if sweep.vary and sweep.problems:
        raise ConfigError("vary and problems must not both be given")
    for key, score in sweep.scores.items():
        if score not in (known := comparable()):
            raise ConfigError(f"{key}: no score {short(score)}; {legal_words(score, known)}")
    names = [entry.name for entry in sweep.methods]
    if not all(names) or not names:
        raise ConfigError("methods must be a list of one method or more, each with a name")
    for name in names:
        if names.count(name) > 1:
            raise ConfigError(
                f"two methods are called {short(name)}; give one of them another name: {{ name = ..., method = ... }}"
            )
    if sweep.table.baseline not in (None, *names):
        raise ConfigError(
            f"table.baseline = {short(sweep.table.baseline)} is no method of the sweep; {legal_words(str(sweep.table.baseline), names)}"
        )
