"""What is raced: candidates at their rates, as runs of a sweep that never see the test set."""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from typing import Any, NamedTuple

from counterpoise.advice.rules import BASELINE, Candidate
from counterpoise.core.local import Local
from counterpoise.run.config.experiment import Experiment
from counterpoise.sweep.jobs import Job, Problem, Setting, make_job
from counterpoise.sweep.specs import Tables, as_name, describe_setting, label_of, merge, put
from counterpoise.sweep.sweep import MethodEntry

LOOKS = 5  # evaluations of a run
SAVES = 2  # checkpoints of a run, which is short
LONGEST = 200  # characters of a run's folder: a seed that is cut off would share that of another
APART = 1000  # between the seeds of the finals and those that chose who is in them


class Trial(NamedTuple):
    """A candidate at one rate."""

    label: str
    method: Any
    setting: Setting  # values of the experiment that it changes
    why: str

    @property
    def name(self) -> str:
        return f"{self.label} {describe_setting(self.setting)}"

    @property
    def is_baseline(self) -> bool:
        return self.label == BASELINE


def trials_of(candidates: Iterable[Candidate], local: Local, rates: int) -> list[Trial]:
    """Candidates at this many of their rates; all at their first before any at its second."""
    found = [
        (place, Trial(label_of(one.method), one.method, _setting(one, local, factor), one.why))
        for one in candidates
        for place, factor in enumerate(one.rates[:rates])
    ]
    return [trial for _, trial in sorted(found, key=lambda pair: pair[0])]


def _setting(one: Candidate, local: Local, factor: float) -> dict[str, Any]:
    """The rate; without local momentum the steps are as much longer as momentum would have made them."""
    if one.momentum or not local.momentum:
        return {"local.lr": _rounded(local.lr * factor)}
    return {"local.lr": _rounded(local.lr * factor / (1 - local.momentum)), "local.momentum": 0.0}


def _rounded(rate: float) -> float:
    return float(f"{rate:.3g}")


class Course(NamedTuple):
    """The experiment that trials run on, and how their samples are held out."""

    experiment: Experiment
    held: (
        float  # share of each class that is held out for them; 0 where the experiment has validation samples
    )

    def jobs(self, trials: Sequence[Trial], rounds: int, seeds: Sequence[int]) -> list[Job]:
        """The runs seed by seed, so that those of the first seeds can be compared when time is out."""
        problem = Problem("", _tables(self.experiment, rounds))
        return [self._job(trial, problem, rounds, seed) for seed in seeds for trial in trials]

    def _job(self, trial: Trial, problem: Problem, rounds: int, seed: int) -> Job:
        entry = MethodEntry(name=trial.label, method=trial.method)
        job = make_job(entry, problem, seed, trial.setting, rounds)
        name = as_name(f"{trial.name} rounds={rounds} seed={seed}", LONGEST)
        return job._replace(name=name, tuning=True, held=self.held, pictures=False)

    def seeds(self, count: int, *, final: bool) -> list[int]:
        """The finals have seeds of their own: those that chose the finalists would flatter them."""
        first = self.experiment.seed + (0 if final else APART)
        return list(range(first, first + count))

    def recommended(self, trial: Trial) -> Tables:
        """The experiment's tables with a trial's method and rate."""
        tables = self.experiment.given() | {"method": trial.method}
        for key, value in trial.setting.items():
            tables = put(tables, key, value)
        return tables


def _tables(experiment: Experiment, rounds: int) -> Tables:
    """What all trials share: few evaluations and checkpoints, and no tracker."""
    kept = {key: value for key, value in experiment.given().items() if key not in ("method", "seed", "track")}
    every = {
        "evaluate": {"every": math.ceil(rounds / LOOKS)},
        "checkpoint": {"every": math.ceil(rounds / SAVES)},
    }
    return merge(kept, every)
