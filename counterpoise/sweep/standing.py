"""How far a sweep is: what is still to come, and of tuning which trial of how many, and the best so far."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import NamedTuple

from counterpoise.errors import CounterpoiseError
from counterpoise.metrics.catalogue import find
from counterpoise.results.progress import Progress, read_progress
from counterpoise.run.store.folder import SWEEP, RunFolder
from counterpoise.sweep.jobs import Job, expand
from counterpoise.sweep.specs import describe_setting
from counterpoise.sweep.sweep import load_sweep
from counterpoise.sweep.tune import Search, Trial, best_trial, final_score, searches_of

ENDED = ("done", "failed", "unreadable")


class Amount(NamedTuple):
    """Runs and all their rounds."""

    runs: int
    rounds: int


class Standing:
    """How far one sweep is; the sweep is read once, and each of its runs until it has ended."""

    def __init__(self, out: Path) -> None:
        self.out = out
        sweep = load_sweep(out / SWEEP)
        self._score = "" if sweep.tune is None else sweep.tune.score
        self._searches = [search for search in searches_of(sweep) if len(search.trials) > 1]
        self._ended: dict[Path, Progress] = {}
        jobs = expand(sweep)
        self._planned = Amount(len(jobs), sum(job.experiment.rounds for job in jobs))

    def to_come(self, found: Sequence[Progress]) -> Amount:
        """What none of these runs has begun, without the trials of tuning."""
        own = [run for run in found if run.sweep == self.out]
        runs, rounds = self._planned.runs - len(own), self._planned.rounds - sum(run.rounds for run in own)
        return Amount(max(runs, 0), max(rounds, 0))  # more than planned were resumed with rounds=NUMBER

    @property
    def going_on(self) -> bool:
        """Whether settings are still tried."""
        jobs = (job for search in self._searches for trial in search.trials for job in trial.jobs)
        return not all(_ended(self._read(job)) for job in jobs)

    def lines(self) -> Iterator[str]:
        """One line for all trials, and one for each method on a problem."""
        if not self.going_on:
            return
        told = [self._words(search) for search in self._searches]
        trials, over = sum(len(search.trials) for search in self._searches), sum(count for count, _ in told)
        yield f"{self.out}: tuning, {over} of {trials} trials done"
        yield from (f"  {words}" for _, words in told)

    def _words(self, search: Search) -> tuple[int, str]:
        """How many trials of a search are over, and where it stands."""
        runs = [[self._read(job) for job in trial.jobs] for trial in search.trials]
        over = sum(all(map(_ended, trial)) for trial in runs)
        count, begun = len(runs), any(one is not None for trial in runs for one in trial)
        now = (
            "done"
            if over == count
            else f"trial {over + 1} of {count}"
            if begun
            else f"{count} trials to come"
        )
        return over, f"{search.label}: {now}{self._rounds(runs)}{self._best(search, runs)}"

    def _rounds(self, runs: list[list[Progress | None]]) -> str:
        running = [one for trial in runs for one in trial if one is not None and one.state == "running"]
        return f", round {running[0].round} of {running[0].rounds}" if running else ""

    def _best(self, search: Search, runs: list[list[Progress | None]]) -> str:
        """The setting with the best mean over its seeds, of those whose runs have all ended."""
        scores = [self._scores(trial, read) for trial, read in zip(search.trials, runs, strict=True)]
        best = best_trial(search, scores, self._score)
        if best is None:
            return ""
        return (
            f", best so far {describe_setting(best.trial.setting)}: {find(self._score).short} {best.mean:.1%}"
        )

    def _scores(self, trial: Trial, runs: list[Progress | None]) -> list[float | None]:
        pairs = zip(trial.jobs, runs, strict=True)
        return [final_score(job, None if run is None else run.result, self._score) for job, run in pairs]

    def _read(self, job: Job) -> Progress | None:
        """The run of a trial; None before it begins."""
        path = job.path(self.out)
        if path not in self._ended:
            if not RunFolder(path).holds_run():
                return None
            found = read_progress(path)
            if found.state not in ENDED:
                return found
            self._ended[path] = found
        return self._ended[path]


def _ended(run: Progress | None) -> bool:
    return run is not None and run.state in ENDED


def sweeps_at(folder: Path) -> Iterator[Standing]:
    """The sweeps in a folder and in the folders directly below; one that cannot be read is left out."""
    for path in (folder / SWEEP, *sorted(folder.glob(f"*/{SWEEP}"))):
        if path.exists():
            yield from filter(None, [standing_of(path.parent)])


def standing_of(out: Path) -> Standing | None:
    """The standing of the sweep in a folder; None where it cannot be read."""
    try:
        return Standing(out)
    except CounterpoiseError:
        return None
