"""Successive halving: all trials run a little, the better half more, and the finalists over many seeds."""

from __future__ import annotations

import math
import statistics
from collections.abc import Callable, Sequence
from contextlib import suppress
from pathlib import Path
from typing import NamedTuple, TypeAlias

from counterpoise.advice.goal import Goal
from counterpoise.advice.plan import FINALISTS, Clock, Rung, Time
from counterpoise.advice.trials import Course, Trial
from counterpoise.results.results import RunResult
from counterpoise.sweep.jobs import Job, given_up, result_of
from counterpoise.sweep.run import Execution, Tally, run_jobs
from counterpoise.sweep.workers import WorkerPool

QUICKEST = 1e-4  # seconds


class OutOfTimeError(Exception):
    """The minutes are over; what has ended is used."""


class Standing(NamedTuple):
    """How a trial does in a rung."""

    trial: Trial
    score: float | None  # mean over the seeds that have ended
    done: int
    seeds: int


class Board(NamedTuple):
    """The race at a moment."""

    stage: str
    standings: Sequence[Standing]
    running: int
    left: float  # seconds


Show: TypeAlias = Callable[[Board], None]


class Race:
    """Runs trials within the time, in a folder that remembers them."""

    def __init__(
        self,
        course: Course,
        goal: Goal,
        out: Path,
        execution: Execution,
        clock: Clock,
        show: Show,
        pool: WorkerPool | None = None,
    ) -> None:
        self.course, self.goal, self.out, self.clock = course, goal, out, clock
        self._execution, self._show, self._pool = execution, show, pool
        self._ended: dict[str, RunResult] = {}
        self._measured: list[RunResult] = []  # those that tell how long others will take
        self._worked = 0.0  # seconds of all processes in rungs

    def rung(
        self,
        trials: Sequence[Trial],
        rung: Rung,
        stage: str,
        until: float = 0.0,
        *,
        final: bool = False,
        measured: bool = True,
    ) -> list[Standing]:
        """Run trials until all have ended or `until` seconds are left; how they stand then.

        `measured`: whether its time tells how long others will take.
        """
        seeds = self.course.seeds(rung.seeds, final=final)
        jobs = self.course.jobs(trials, rung.rounds, seeds)

        def show(tally: Tally) -> None:
            self._show(Board(stage, self._stand(trials, jobs), tally.running, self.clock.left))
            if self.clock.left <= until:
                raise OutOfTimeError

        began = self.clock.spent
        known = {job.name for job in jobs if self._result(job) is not None}  # before a stop
        with suppress(OutOfTimeError):
            run_jobs(stage, jobs, self.out, self._execution, show, self._pool)
        standings = self._stand(trials, jobs)
        if measured:
            self._worked += (self.clock.spent - began) * min(self._execution.processes, len(jobs))
            new = self._ended.keys() - known
            self._measured += [self._ended[job.name] for job in jobs if job.name in new]
        self._show(Board(stage, standings, 0, self.clock.left))
        return standings

    def results(self, trial: Trial, rung: Rung) -> dict[int, RunResult]:
        """The runs of a finalist that have ended, by seed."""
        jobs = self.course.jobs([trial], rung.rounds, self.course.seeds(rung.seeds, final=True))
        found = {job.experiment.seed: self._result(job) for job in jobs}
        return {seed: run for seed, run in found.items() if run is not None}

    def paths(self, trials: Sequence[Trial], rung: Rung) -> dict[Path, str]:
        """Labels of the finals' runs by their folders."""
        jobs = self.course.jobs(trials, rung.rounds, self.course.seeds(rung.seeds, final=True))
        return {job.path(self.out): job.method for job in jobs}

    def time(self, share: float = 1.0) -> Time:
        """What is left of the clock, or of a share of it, and what runs have taken so far."""
        seconds = max(self.clock.left - (1 - share) * self.clock.limit, 0.0)
        if not self._measured:
            return Time(seconds, self._execution.processes, self._round_alone())
        trained = [sum(run.seconds) for run in self._measured]
        pace = sum(trained) / sum(len(run.rows) for run in self._measured)
        overhead = (self._worked - sum(trained)) / len(trained)
        return Time(seconds, self._execution.processes, max(pace, QUICKEST), max(overhead, QUICKEST))

    def _round_alone(self) -> float:
        """Seconds of a round, without the first of a run, which is slower; all that was spent where none has ended."""
        seconds = [second for run in self._ended.values() for second in run.seconds[1:] or run.seconds]
        return max(statistics.fmean(seconds), QUICKEST) if seconds else self.clock.spent

    def _stand(self, trials: Sequence[Trial], jobs: Sequence[Job]) -> list[Standing]:
        return [self._standing(trial, jobs[place :: len(trials)]) for place, trial in enumerate(trials)]

    def _standing(self, trial: Trial, jobs: Sequence[Job]) -> Standing:
        scores = [self.goal.read(run.scored[-1]) for job in jobs if (run := self._result(job)) is not None]
        known = [score for score in scores if score is not None]
        return Standing(trial, statistics.fmean(known) if known else None, len(known), len(jobs))

    def _result(self, job: Job) -> RunResult | None:
        """The run of a job once it has a result, read once."""
        if job.name not in self._ended:
            run = result_of(job.path(self.out))
            if run is None or run.summary is None or given_up(job, run) is not None:
                return None
            self._ended[job.name] = run
        return self._ended[job.name]


def better_half(standings: Sequence[Standing]) -> list[Trial]:
    """The better half, best first, and the baseline at its best rate in any case; unfinished ones are last."""
    ranked = sorted(standings, key=_cost)
    kept = ranked[: math.ceil(len(ranked) / 2)]
    if not any(one.trial.is_baseline for one in kept):
        kept += [one for one in ranked if one.trial.is_baseline][:1]
    return [one.trial for one in kept]


def finalists_of(ranked: Sequence[Trial]) -> list[Trial]:
    """Each method at its best rate, the baseline first, then by rank."""
    best: dict[str, Trial] = {}
    for trial in ranked:
        best.setdefault(trial.label, trial)
    ordered = sorted(best.values(), key=lambda trial: not trial.is_baseline)
    return ordered[:FINALISTS]


def _cost(one: Standing) -> tuple[bool, float]:
    """Trials without the score of every seed come last."""
    return one.done < one.seeds, -(one.score if one.score is not None else -math.inf)
