"""The runs of a sweep and an estimate of their time, from a few steps of each problem."""

from __future__ import annotations

import time
from collections.abc import Sequence
from contextlib import closing
from dataclasses import replace
from pathlib import Path
from typing import Literal, NamedTuple

from counterpoise.run.assemble import assemble, load_federation
from counterpoise.run.store.folder import RunFolder
from counterpoise.server.cohort import Cohort
from counterpoise.sweep.jobs import Job, check_scores, expand, has_begun, is_done
from counterpoise.sweep.sweep import Sweep
from counterpoise.sweep.tune import jobs_of, searches_of

STEPS = 4  # of a client, from which the time of a round is estimated

State = Literal["done", "stopped", "to run"]


class DryRun(NamedTuple):
    """The runs of a sweep, tuning runs first; the others use the settings that tuning will choose."""

    jobs: list[Job]
    states: list[State]
    seconds: (
        float  # in one process for what is not done; all methods are assumed to cost as much as the first
    )


def plan_sweep(sweep: Sweep, out: Path) -> DryRun:
    """The runs and their states; nothing is written."""
    jobs = [*jobs_of(searches_of(sweep)), *expand(sweep)]
    check_scores(sweep, jobs)
    states = [_state(job, out) for job in jobs]
    todo = [job for job, state in zip(jobs, states, strict=True) if state != "done"]
    return DryRun(jobs, states, estimate_seconds(todo))


def estimate_seconds(jobs: Sequence[Job]) -> float:
    """Seconds of all rounds in one process, at the pace of a few steps of each problem."""
    first = {job.problem: job for job in reversed(jobs)}
    pace = {problem: _seconds_per_round(job) for problem, job in first.items()}
    return sum(job.experiment.rounds * pace[job.problem] for job in jobs)


def _seconds_per_round(job: Job) -> float:
    """Estimated from a few steps of one client, so that a dry run of long runs is short."""
    federation, local = load_federation(job.experiment), job.experiment.local
    few = tuple(rows[: STEPS * local.batch_size] for rows in federation.clients)
    engine = replace(job.experiment.engine, processes=1, compile=False)
    search = job.experiment.build_method().owner("choose")  # such a method asks all clients
    cohort = Cohort(None if search else 1)
    experiment = replace(job.experiment, engine=engine, local=replace(local, epochs=1), cohort=cohort)
    with closing(assemble(experiment, replace(federation, clients=few))) as simulation:
        state, _ = simulation.advance(simulation.open())  # the first round is slower than the others
        began = time.perf_counter()
        state, _ = simulation.advance(state)
        trained = time.perf_counter()
        simulation.evaluate(state)
        scored = time.perf_counter() - trained
    asked = len(few) if search else 1
    done = sum(len(rows) for rows in few) / len(few) * asked
    samples = federation.samples().double().mean() * (job.experiment.cohort.size or len(few)) * local.epochs
    return (trained - began) * float(samples) / max(done, 1) + scored / experiment.evaluate.every


def _state(job: Job, out: Path) -> State:
    if is_done(job, out):
        return "done"
    return "stopped" if has_begun(RunFolder(job.path(out))) else "to run"
