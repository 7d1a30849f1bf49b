"""A sweep as a list of runs, and how a run's folder relates to the job it should hold."""

from __future__ import annotations

import hashlib
import itertools
import json
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any, NamedTuple

from counterpoise.data.dataset import DATASETS
from counterpoise.data.partition import PARTITIONS
from counterpoise.errors import ConfigError, CounterpoiseError
from counterpoise.models.model import MODELS
from counterpoise.results.results import TUNING, RunResult, read_result
from counterpoise.run.config.experiment import Experiment, load_experiment, make_experiment
from counterpoise.run.patience import why_given_up
from counterpoise.run.store.facts import first_difference
from counterpoise.run.store.folder import RunFolder
from counterpoise.sweep.specs import Tables, as_name, describe_setting, merge, put
from counterpoise.sweep.sweep import MethodEntry, Sweep

Setting = Mapping[str, Any]  # values by dotted key
LEFT_OPEN = (("engine", "chunk"), ("engine", "together"), ("partition", "clients"))  # by 0, or by none


class Job(NamedTuple):
    """One run of a sweep; `method` and `problem` are labels."""

    name: str
    method: str
    problem: str
    experiment: Experiment
    tuning: bool = False  # scored on the validation split, without the test set

    def path(self, out: Path) -> Path:
        return out / (TUNING if self.tuning else "runs") / self.name


class Problem(NamedTuple):
    """What methods are compared on, whatever the method and the seed."""

    name: str
    tables: Tables


def expand(sweep: Sweep, chosen: Mapping[tuple[str, str], Setting] | None = None) -> list[Job]:
    """The runs of a sweep, seed by seed; `chosen` holds the settings that tuning found, by method and problem."""
    chosen = chosen or {}
    return name_apart(
        make_job(entry, problem, seed, chosen.get((entry.name, problem.name), {}))
        for problem in problems_of(sweep)
        for seed in sweep.seeds
        for entry in sweep.methods
    )


def problems_of(sweep: Sweep) -> list[Problem]:
    """The base with every combination of what varies."""
    if sweep.problems:
        return [_given_problem(sweep.base, number, given) for number, given in enumerate(sweep.problems, 1)]
    combinations = itertools.product(*sweep.vary.values())
    return [
        _varied_problem(sweep.base, dict(zip(sweep.vary, values, strict=True))) for values in combinations
    ]


def make_job(
    entry: MethodEntry, problem: Problem, seed: int, setting: Setting, rounds: int | None = None
) -> Job:
    """One run; a config that is not legal is refused here, before anything runs."""
    tables = merge(problem.tables, {"method": entry.method, "seed": seed, "local": entry.local})
    for key, value in setting.items():
        tables = put(tables, key, value)
    experiment = make_experiment(tables if rounds is None else tables | {"rounds": rounds}, entry.name)
    check_names(experiment)
    return Job(f"{entry.name} {problem.name} seed{seed}", entry.name, problem.name, experiment)


def check_names(experiment: Experiment) -> None:
    """Every name and argument is one that there is."""
    experiment.build_method()
    for registry, table in (
        (DATASETS, experiment.data),
        (PARTITIONS, experiment.partition),
        (MODELS, experiment.model),
    ):
        registry.build(table.name, table.arguments)


def name_apart(jobs: Iterator[Job]) -> list[Job]:
    """The jobs with names that folders can have; where two would share one, each carries a hash of its config."""
    named = [job._replace(name=as_name(job.name)) for job in jobs]
    counts = Counter(job.name.lower() for job in named)
    return [job if counts[job.name.lower()] == 1 else job._replace(name=_hashed(job)) for job in named]


def is_done(job: Job, out: Path) -> bool:
    return _is_done(result_of(job.path(out)))


def given_up(job: Job, out: Path) -> str | None:
    """Why a run of this job would end again as it did; None: it has not ended, or well."""
    return _lost(result_of(job.path(out)), job)


def is_over(job: Job, out: Path) -> bool:
    """Whether there is nothing left to run: it is done, or given up as all are that it was trained together with."""
    result = result_of(job.path(out))
    if result is None or _is_done(result) or _lost(result, job) is None:
        return _is_done(result)
    mates = [result_of(result.path.parent / name) for name in result.config["engine"]["together"]]
    return all(_is_done(mate) or _lost(mate, job) is not None for mate in mates)


def result_of(path: Path) -> RunResult | None:
    """The run of a folder; None where there is none that can be trusted, which going on with it mends or tells."""
    try:
        return read_result(path) if RunFolder(path).holds_run() else None
    except CounterpoiseError:
        return None


def _is_done(result: RunResult | None) -> bool:
    return result is not None and result.summary is not None and bool(result.record)


def _lost(result: RunResult | None, job: Job) -> str | None:
    if result is None:
        return None
    return why_given_up(result.rows, job.experiment.engine.max_skipped, job.experiment.rounds)


def check_folders(jobs: Sequence[Job], out: Path) -> None:
    """Refuse a folder that holds a run of another config: nothing is written over."""
    for job in jobs:
        folder = RunFolder(job.path(out))
        known = known_experiment(folder) if has_begun(folder) else None
        if known is not None and (difference := _difference(known, job.experiment)):
            raise ConfigError(
                f"{folder.path} holds a run of another config: {difference}; put it back, remove that folder, or name another with --out"
            )


def has_begun(folder: RunFolder) -> bool:
    """Whether there is a run to go on with; a run that failed before its record was written starts again."""
    return folder.holds_run() and (folder.record.exists() or folder.has_checkpoint())


def known_experiment(folder: RunFolder) -> Experiment | None:
    """What a folder's config says; None where it is damaged, which is told when that run is to go on."""
    try:
        return load_experiment(folder.config)
    except ConfigError:
        return None


def _difference(found: Experiment, wanted: Experiment) -> str | None:
    """What differs between a settled config and a wanted one, but for choices that were left open."""
    before, now = found.binding_tables(), wanted.binding_tables()
    for table, key in [
        (table, key) for table, inner in now.items() if isinstance(inner, dict) for key in inner
    ]:
        if now[table][key] == "auto" or (not now[table][key] and (table, key) in LEFT_OPEN):
            now[table][key] = before[table][key]
    if wanted.data.name == "pack":
        now["partition"] = before["partition"]
    return first_difference(before, now)


def _given_problem(base: Tables, number: int, given: Tables) -> Problem:
    name, tables = given.get("name", f"problem{number}"), {k: v for k, v in given.items() if k != "name"}
    _check_keys(tables)
    return Problem(str(name), merge(base, tables))


def _varied_problem(base: Tables, values: Setting) -> Problem:
    _check_keys(values)
    tables = base
    for key, value in values.items():
        tables = put(tables, key, value)
    return Problem(describe_setting(values), tables)


def _check_keys(keys: Mapping[str, Any]) -> None:
    for key in keys:
        if key.partition(".")[0] in ("method", "seed"):
            raise ConfigError(
                f"{key} is not legal as part of a problem; legal: methods = [...], seeds = [...]"
            )


def _hashed(job: Job) -> str:
    text = json.dumps(job.experiment.tables(), sort_keys=True)
    return f"{job.name}-{hashlib.sha256(text.encode()).hexdigest()[:8]}"
