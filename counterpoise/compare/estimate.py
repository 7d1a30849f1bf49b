"""What a sweep would do and how long it would take, from a round of each problem."""

from __future__ import annotations

import time
from collections.abc import Sequence
from contextlib import closing
from pathlib import Path
from typing import Literal, NamedTuple

from counterpoise.compare.jobs import Job, expand, has_begun, is_done
from counterpoise.compare.sweep import Sweep
from counterpoise.compare.tune import jobs_of, searches_of
from counterpoise.experiment.assemble import assemble
from counterpoise.experiment.folder import RunFolder

State = Literal["done", "stopped", "to run"]


class Plan(NamedTuple):
    """The runs of a sweep, tuning first; with tuning, the runs after it take the settings that it chooses."""

    jobs: list[Job]
    states: list[State]
    seconds: float  # of one process for what is not done; methods are taken to cost what the first one does


def plan_sweep(sweep: Sweep, out: Path) -> Plan:
    """What there is to do; nothing is written."""
    jobs = [*jobs_of(searches_of(sweep)), *expand(sweep)]
    states = [_state(job, out) for job in jobs]
    todo = [job for job, state in zip(jobs, states, strict=True) if state != "done"]
    return Plan(jobs, states, estimate_seconds(todo))


def estimate_seconds(jobs: Sequence[Job]) -> float:
    """Rounds to come, at the pace of a round of each problem on one process."""
    first = {job.problem: job for job in reversed(jobs)}
    pace = {problem: _seconds_a_round(job) for problem, job in first.items()}
    return sum(job.experiment.rounds * pace[job.problem] for job in jobs)


def _seconds_a_round(job: Job) -> float:
    engine = job.experiment.engine.model_copy(update={"processes": 1})
    experiment = job.experiment.model_copy(update={"engine": engine})
    with closing(assemble(experiment)) as simulation:
        state, _ = simulation.advance(simulation.open())  # the first round is slower than the others
        began = time.perf_counter()
        state, _ = simulation.advance(state)
        trained = time.perf_counter()
        simulation.evaluate(state)
        return trained - began + (time.perf_counter() - trained) / experiment.evaluate.every


def _state(job: Job, out: Path) -> State:
    if is_done(job, out):
        return "done"
    return "stopped" if has_begun(RunFolder(job.path(out))) else "to run"
