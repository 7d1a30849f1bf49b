"""A sweep as a list of jobs, and the state of each job's folder."""

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
from counterpoise.models.foreign import check_form, is_foreign
from counterpoise.models.model import MODELS
from counterpoise.results.progress import RUNS
from counterpoise.results.results import TUNING, RunResult, read_result
from counterpoise.results.words import on_problem
from counterpoise.run.config.experiment import Experiment, load_experiment, make_experiment
from counterpoise.run.giving_up import why_given_up
from counterpoise.run.store.facts import first_difference
from counterpoise.run.store.folder import RunFolder
from counterpoise.sweep.specs import Tables, as_name, describe_setting, merge, put
from counterpoise.sweep.sweep import MethodEntry, Sweep

Setting = Mapping[str, Any]  # values by dotted key
# Keys that 0 or nothing leaves to the run
LEFT_OPEN = (("engine", "chunk"), ("engine", "together"), ("partition", "clients"))
NEEDED = {"positive": "data.positive", "threshold": "evaluate.threshold"}  # by scores whose names begin so


class Job(NamedTuple):
    """One run of a sweep; `method` and `problem` are labels."""

    name: str
    method: str
    problem: str
    experiment: Experiment
    tuning: bool = False  # scored on the validation split, without the test set
    held: float = 0.0  # share of each class that a tuning run holds out itself, drawn by its seed
    pictures: bool = True  # draw the partition and the curves, which takes longer than a short run

    def path(self, out: Path) -> Path:
        return out / (TUNING if self.tuning else RUNS) / self.name


class Problem(NamedTuple):
    """An experiment without method and seed, on which methods are compared."""

    name: str
    tables: Tables


def expand(sweep: Sweep, chosen: Mapping[tuple[str, str], Setting] | None = None) -> list[Job]:
    """The runs of a sweep, seed by seed; `chosen`: settings found by tuning, by method and problem."""
    chosen = chosen or {}
    return name_apart(
        make_job(entry, cut, seed, chosen.get((entry.name, problem.name), {}))
        for problem in problems_of(sweep)
        for seed in sweep.seeds
        for cut in [repeat(problem, sweep, seed)]
        for entry in sweep.methods
    )


def check_scores(sweep: Sweep, jobs: Sequence[Job]) -> None:
    """Refuse to run what is judged by a score that some run will not have; what has run may be read by any score."""
    for (key, score), job in itertools.product(sweep.scores.items(), jobs):
        given = {"positive": job.experiment.data.positive, "threshold": job.experiment.evaluate.threshold}
        kind = score.partition("_")[0]
        if given.get(kind, score) is None:
            raise ConfigError(
                f"{key} = {score} needs {NEEDED[kind]}, which there is not{on_problem(job.problem)}"
            )


def repeat(problem: Problem, sweep: Sweep, seed: int) -> Problem:
    """The problem with the test rows of this seed; refused where its data would have the same ones with any."""
    if sweep.repeats == "runs":
        return problem
    drawn: Setting = (
        {"data.seed": seed}
        if sweep.repeats == "splits"
        else {"data.folds": len(sweep.seeds), "data.fold": sweep.seeds.index(seed)}
    )
    _check_drawn(problem.tables.get("data", {}), sweep.repeats, drawn)
    tables = problem.tables
    for key, value in drawn.items():
        tables = put(tables, key, value)
    return problem._replace(tables=tables)


def _check_drawn(data: Setting, repeats: str, drawn: Setting) -> None:
    for key in (key.removeprefix("data.") for key in drawn):
        if key in data:
            raise ConfigError(
                f'data.{key} does not go with repeats = "{repeats}", where each run has its own; leave it out'
            )
    name = make_experiment({"data": data}).data.name
    fixed = next((key for key in ("test", "split", "time") if key in data), None)
    taken = "seed" if repeats == "splits" else "fold"
    if fixed or taken not in DATASETS.entry(name).parameters:
        why = f"data.{fixed} gives it" if fixed else f"that of {name} is fixed"
        raise ConfigError(
            f'repeats = "{repeats}" needs a test set that data.seed draws, and {why}; use repeats = "runs"'
        )


def problems_of(sweep: Sweep) -> list[Problem]:
    """The listed problems, or the base with every combination of [vary]."""
    if sweep.problems:
        return [_given_problem(sweep.base, number, given) for number, given in enumerate(sweep.problems, 1)]
    combinations = itertools.product(*sweep.vary.values())
    return [
        _varied_problem(sweep.base, dict(zip(sweep.vary, values, strict=True))) for values in combinations
    ]


def make_job(
    entry: MethodEntry, problem: Problem, seed: int, setting: Setting, rounds: int | None = None
) -> Job:
    """One run; an invalid config is refused here, before anything runs."""
    tables = merge(problem.tables, {"method": entry.method, "seed": seed, "local": entry.local})
    for key, value in setting.items():
        tables = put(tables, key, value)
    experiment = make_experiment(tables if rounds is None else tables | {"rounds": rounds}, entry.name)
    check_names(experiment)
    return Job(f"{entry.name} {problem.name} seed{seed}", entry.name, problem.name, experiment)


def check_names(experiment: Experiment) -> None:
    """Refuse unknown names and arguments."""
    experiment.build_method()
    for registry, table in ((DATASETS, experiment.data), (PARTITIONS, experiment.partition)):
        registry.build(table.name, table.arguments)
    if is_foreign(experiment.model.name):
        check_form(experiment.model.name)  # its code is imported only by the run itself
    else:
        MODELS.build(experiment.model.name, experiment.model.arguments)


def name_apart(jobs: Iterator[Job]) -> list[Job]:
    """The jobs with unique names for folders; where two are equal, a hash of the config is appended."""
    named = [job._replace(name=as_name(job.name)) for job in jobs]
    counts = Counter(job.name.lower() for job in named)
    return [job if counts[job.name.lower()] == 1 else job._replace(name=_hashed(job)) for job in named]


def is_done(job: Job, out: Path) -> bool:
    return _is_done(result_of(job.path(out)))


def given_up(job: Job, result: RunResult | None) -> str | None:
    """Why the job with this result was given up; None if it has not ended, or succeeded."""
    if result is None:
        return None
    return why_given_up(result.rows, job.experiment.engine.max_skipped, job.experiment.rounds)


def is_over(job: Job, out: Path) -> bool:
    """Whether nothing is left to run: done, or given up together with all runs trained with it."""
    result = result_of(job.path(out))
    if result is None or _is_done(result) or given_up(job, result) is None:
        return _is_done(result)
    partners = [result_of(result.path.parent / name) for name in result.config["engine"]["together"]]
    return all(_is_done(partner) or given_up(job, partner) is not None for partner in partners)


def result_of(path: Path) -> RunResult | None:
    """The run of a folder; None if there is none or it is damaged, which resuming it repairs or reports."""
    try:
        return read_result(path) if RunFolder(path).holds_run() else None
    except CounterpoiseError:
        return None


def _is_done(result: RunResult | None) -> bool:
    return result is not None and result.summary is not None and bool(result.record)


def check_folders(jobs: Sequence[Job], out: Path) -> None:
    """Refuse a folder that holds a run of another config: nothing is overwritten."""
    for job in jobs:
        folder = RunFolder(job.path(out))
        known = known_experiment(folder) if has_begun(folder) else None
        if known is not None and (difference := _difference(known, job.experiment)):
            raise ConfigError(
                f"{folder.path} holds a run of another config: {difference}; put it back, remove that folder, or name another with --out"
            )


def has_begun(folder: RunFolder) -> bool:
    """Whether there is a run to resume; one that failed before its record was written starts again."""
    return folder.holds_run() and (folder.record.exists() or folder.has_checkpoint())


def known_experiment(folder: RunFolder) -> Experiment | None:
    """The experiment of a folder's config; None if it is damaged, which is reported when that run is resumed."""
    try:
        return load_experiment(folder.config)
    except ConfigError:
        return None


def _difference(found: Experiment, wanted: Experiment) -> str | None:
    """What differs between a resolved config and a wanted one, except for choices that were left open."""
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
            raise ConfigError(f"{key} must not vary with the problem; use methods = [...] and seeds = [...]")


def _hashed(job: Job) -> str:
    text = json.dumps(job.experiment.tables(), sort_keys=True)
    return f"{job.name}-{hashlib.sha256(text.encode()).hexdigest()[:8]}"
