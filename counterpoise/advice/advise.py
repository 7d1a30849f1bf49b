"""Advice on an experiment: race its candidates on validation samples, then recommend."""

from __future__ import annotations

import itertools
from collections.abc import Sequence
from pathlib import Path
from typing import NamedTuple

from counterpoise.advice.finals import Final, run_finals
from counterpoise.advice.memory import Memory
from counterpoise.advice.outlook import Outlook
from counterpoise.advice.plan import (
    FINALISTS,
    HALVING,
    LATEST,
    Clock,
    Rung,
    Time,
    plan_rung,
)
from counterpoise.advice.race import Board, Race, Show, better_half, finalists_of
from counterpoise.advice.recommend import conclude
from counterpoise.advice.rules import BASELINE, Candidate
from counterpoise.advice.trials import Course, Trial, trials_of
from counterpoise.errors import ConfigError, short
from counterpoise.results.recommendation import Recommendation
from counterpoise.run.config.experiment import Experiment
from counterpoise.run.learned import learned_in
from counterpoise.run.store.folder import ADVICE
from counterpoise.sweep.run import Execution, hold_folder
from counterpoise.sweep.workers import WorkerPool

MOST_MINUTES = 100_000
RATES = 3  # of each candidate
FIRST = 3  # rounds from which the time is estimated


class Found(NamedTuple):
    """The end of a race."""

    outlook: Outlook
    course: Course
    finalists: Sequence[Trial]
    finals: Rung
    recommendation: Recommendation
    race: Race
    tried: int  # of the candidates

    @property
    def trial(self) -> Trial:
        """The finalist that is recommended."""
        return next(one for one in self.finalists if one.label == self.recommendation.method)

    @property
    def paragraph(self) -> str:
        return f"{self.recommendation.paragraph} {self.learned_words}"

    @property
    def learned_words(self) -> str:
        """What the server learns beyond what the baseline tells it."""
        base, used = (
            learned_in(_experiment(self.course, trial)) for trial in (self.finalists[0], self.trial)
        )
        more = [one.words for one in used if one.what not in {known.what for known in base}]
        return (
            f"The server learns in addition {'; '.join(more)}."
            if more
            else "The server learns no more than with FedAvg."
        )


def check_minutes(minutes: float) -> None:
    if not isinstance(minutes, int | float) or not 0 < minutes <= MOST_MINUTES:
        raise ConfigError(
            f"minutes must be a number above 0 and at most {MOST_MINUTES}, not {short(minutes)}"
        )


def advise_on(
    outlook: Outlook,
    course: Course,
    out: Path,
    minutes: float,
    execution: Execution,
    show: Show,
) -> Found:
    """Race the candidates within the minutes; the same call goes on after any stop."""
    with hold_folder(out, ADVICE), WorkerPool(execution.processes) as pool:
        memory = Memory(out / ADVICE, outlook.goal.name, minutes, outlook.sha256)
        if execution.on == "local" and execution.processes > 1 and not memory.planned:
            pool.start()
        clock = Clock(60 * minutes, memory.spent)

        def keep(board: Board) -> None:
            memory.keep(spent=clock.spent)
            show(board)

        race = Race(course, outlook.goal, out, execution, clock, keep, pool)
        final = _run(race, outlook, memory)
        finalists, finals = final
        found = conclude(
            final.runs(race), BASELINE, outlook.goal, outlook.data, outlook.held,
            _notes(course.experiment.rounds, finals),
        )  # fmt: skip
        return Found(outlook, course, finalists, finals, found, race, memory.candidates)


def _run(race: Race, outlook: Outlook, memory: Memory) -> Final:
    """Rungs of ever fewer trials, then the finals; what was planned before a stop stays."""
    local = race.course.experiment.local
    if not memory.planned:
        _measure(race, trials_of(outlook.candidates[:1], local, 1))
        rates, kept = _choose(outlook.candidates, race.course.experiment, race.time(HALVING))
        memory.keep(rates=rates, candidates=kept)
    trials = trials_of(outlook.candidates[: memory.candidates], local, memory.rates)
    for number in itertools.count():
        rung = _rung(number, len(trials), race, memory)
        if rung is None:
            break
        stage = f"rung {number + 1}: {len(trials)} trials, {rung.rounds} of {race.course.experiment.rounds} rounds"
        trials = better_half(race.rung(trials, rung, stage, (1 - LATEST) * race.clock.limit))
    return run_finals(finalists_of(trials), trials_of(outlook.candidates, local, RATES), race, memory)


def _rung(number: int, trials: int, race: Race, memory: Memory) -> Rung | None:
    """The rung of this number, remembered or planned now; None for the finals."""
    if number < len(memory.rungs):
        return memory.rungs[number]
    if memory.finals is not None:
        return None
    least = memory.rungs[-1].rounds if memory.rungs else 1
    rung = plan_rung(trials, race.course.experiment.rounds, race.time(HALVING), least)
    if rung is not None:
        memory.keep(rungs=[*memory.rungs, rung])
    return rung


def _measure(race: Race, baseline: list[Trial]) -> None:
    """The first rounds of the baseline, for an estimate: it says little of other runs, since its process starts meanwhile."""
    rung = Rung(1, min(FIRST, race.course.experiment.rounds), 1)
    race.rung(baseline, rung, "how long a round takes", measured=False)


def _choose(candidates: Sequence[Candidate], experiment: Experiment, spend: Time) -> tuple[int, int]:
    """As many rates, then as many candidates, as can be told apart in the time."""
    options = [(rates, len(candidates)) for rates in range(RATES, 0, -1)]
    options += [(1, kept) for kept in range(len(candidates) - 1, FINALISTS, -1)]
    for rates, kept in options:
        if plan_rung(len(trials_of(candidates[:kept], experiment.local, rates)), experiment.rounds, spend):
            return rates, kept
    return 1, min(FINALISTS, len(candidates))


def _experiment(course: Course, trial: Trial) -> Experiment:
    return Experiment.read(course.recommended(trial))


def _notes(rounds: int, finals: Rung) -> list[str]:
    """What the finals lacked."""
    return [f"time allowed for {finals.rounds} of {rounds} rounds"] if finals.rounds < rounds else []
