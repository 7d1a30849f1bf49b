"""Tuning: a grid of settings per method, one budget, and scores on the validation split only."""

from __future__ import annotations

import json
import math
import statistics
from collections.abc import Iterable, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any, NamedTuple

import torch

from counterpoise.data.federation import Federation
from counterpoise.errors import ConfigError, plural
from counterpoise.metrics.catalogue import find
from counterpoise.results.results import RunResult
from counterpoise.results.words import on_problem
from counterpoise.sweep.grids import check_grids, draw_settings, grid_of
from counterpoise.sweep.jobs import (
    Job,
    Problem,
    Setting,
    given_up,
    make_job,
    name_apart,
    problems_of,
    result_of,
)
from counterpoise.sweep.specs import describe_setting
from counterpoise.sweep.sweep import MethodEntry, Sweep, Tune
from counterpoise.system.atomic import write_atomically

TUNING_FILE = "tuning.json"  # in the folder of a sweep: what was tried and chosen


class Trial(NamedTuple):
    """A setting of a method on a problem, with the runs that score it."""

    setting: Setting
    jobs: Sequence[Job]


class Search(NamedTuple):
    """The settings tried for a method on a problem; `grid` is the number of combinations."""

    method: str
    problem: str
    grid: int
    trials: Sequence[Trial]

    @property
    def label(self) -> str:
        return f"{self.method}{on_problem(self.problem)}"


class Best(NamedTuple):
    """The best trial of a search."""

    trial: Trial
    mean: float  # of its scores


class Tuned(NamedTuple):
    """The result of a search; no setting if every one failed."""

    search: Search
    scores: Sequence[Sequence[float | None]]  # of each trial, by seed
    chosen: Setting | None


def searches_of(sweep: Sweep) -> list[Search]:
    """The searches of a sweep; none if it does not tune."""
    if sweep.tune is None:
        return []
    check_grids(sweep)
    tune = sweep.tune
    planned = [_plan(entry, problem, tune) for problem in problems_of(sweep) for entry in sweep.methods]
    names = iter(name_apart(job for search in planned for trial in search.trials for job in trial.jobs))
    return [
        search._replace(
            trials=[trial._replace(jobs=[next(names) for _ in trial.jobs]) for trial in search.trials]
        )
        for search in planned
    ]


def jobs_of(searches: Iterable[Search]) -> list[Job]:
    """The tuning runs; a method with a single setting needs none."""
    return [
        job for search in searches if len(search.trials) > 1 for trial in search.trials for job in trial.jobs
    ]


def choose_settings(sweep: Sweep, searches: Iterable[Search], out: Path) -> list[Tuned]:
    """The results of all searches; none if the sweep does not tune."""
    return [] if sweep.tune is None else [choose(search, out, sweep.tune.score) for search in searches]


def write_tuning(tuned: Sequence[Tuned], tune: Tune, out: Path) -> None:
    """What was tried and chosen, as tuning.json."""
    write_atomically(out / TUNING_FILE, (json.dumps(record(tuned, tune), indent=2) + "\n").encode())


def choose(search: Search, out: Path, score: str) -> Tuned:
    """The setting with the best mean over seeds; the first of equals."""
    if len(search.trials) == 1:
        return Tuned(search, [[]], search.trials[0].setting)
    scores = [
        [final_score(job, result_of(job.path(out)), score) for job in trial.jobs] for trial in search.trials
    ]
    best = best_trial(search, scores, score)
    return Tuned(search, scores, None if best is None else best.trial.setting)


def best_trial(search: Search, scores: Sequence[Sequence[float | None]], score: str) -> Best | None:
    """The trial with the best mean over seeds, the first of equals; None if none has a score with every seed."""
    known = [
        Best(trial, statistics.fmean(value for value in values if value is not None))
        for trial, values in zip(search.trials, scores, strict=True)
        if None not in values
    ]
    sign = -1 if find(score).lower else 1
    return max(known, key=lambda best: sign * best.mean, default=None)


def final_score(job: Job, result: RunResult | None, score: str) -> float | None:
    """The score at the last evaluation of a job; None before its end, or if that evaluation lacks it."""
    if result is None or result.summary is None:
        return None
    if given_up(job, result) is not None:  # even if it reached its last round
        return None
    return result.summary.get(score)


def use_validation_as_test(federation: Federation) -> Federation:
    """The federation with its validation samples in place of the test set, which a tuning run never sees.

    They also stay for validation: FedHOO and the ratio loss learn from them, in tuning runs too.
    """
    held = federation.validation
    if held is None or not len(held.y):
        rows = [*federation.held_out, torch.zeros(0, dtype=torch.int64)]
        held = federation.train.take(torch.cat(rows))
    if not len(held.y):
        raise ConfigError(
            "tuning needs validation samples and there are none: use more data, or a larger data.validation or partition.validation"
        )
    return replace(federation, test=held)


def record(tuned: Sequence[Tuned], tune: Tune) -> dict[str, Any]:
    """The content of tuning.json."""
    return {
        "score": tune.score,
        "split": "validation",
        "budget": tune.budget,
        "seeds": tune.seeds,
        "searches": [_record_search(one) for one in tuned],
    }


def budget_lines(tuned: Sequence[Tuned], tune: Tune) -> list[str]:
    """One line per search: how many settings were tried of how many, and which was chosen."""
    head = f"tuned by {tune.score} on the validation split, at most {tune.budget} settings per method, {plural(len(tune.seeds), 'seed')} each:"
    return [head, *(f"  {_words(one)}" for one in tuned)]


def _plan(entry: MethodEntry, problem: Problem, tune: Tune) -> Search:
    grid = grid_of(entry, tune)
    settings = draw_settings(grid, tune.budget, entry.name)
    trials = [
        Trial(setting, [_trial_job(entry, problem, tune, setting, seed) for seed in tune.seeds])
        for setting in settings
    ]
    return Search(entry.name, problem.name, math.prod(map(len, grid.values())), trials)


def _trial_job(entry: MethodEntry, problem: Problem, tune: Tune, setting: Setting, seed: int) -> Job:
    job = make_job(entry, problem, seed, setting, tune.rounds)
    experiment = job.experiment
    if experiment.data.name != "pack" and not (experiment.data.validation or experiment.partition.validation):
        raise ConfigError(
            "tune needs a validation split: data.validation or partition.validation must be above 0 in [base]"
        )
    return job._replace(
        name=f"{entry.name} {problem.name} {describe_setting(setting)} seed{seed}", tuning=True
    )


def _record_search(one: Tuned) -> dict[str, Any]:
    trials = [
        {
            "setting": dict(trial.setting),
            "scores": list(scores),
            "runs": [job.name for job in trial.jobs] if scores else [],
        }
        for trial, scores in zip(one.search.trials, one.scores, strict=True)
    ]
    chosen = None if one.chosen is None else dict(one.chosen)
    return {
        "method": one.search.method,
        "problem": one.search.problem,
        "grid": one.search.grid,
        "tried": len(trials),
        "chosen": chosen,
        "trials": trials,
    }


def _words(one: Tuned) -> str:
    search = one.search
    if one.chosen is None:
        return f"{search.label}: none of {len(search.trials)} settings could be scored"
    tried = f"{len(search.trials)} of {search.grid} settings"
    return f"{search.label}: {tried}, chosen {describe_setting(one.chosen) or 'as given'}"
