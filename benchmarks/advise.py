"""How good is the advice? `advise` on up to 20 problems against the best candidate in hindsight on the test set.

    COUNTERPOISE_DATA=~/data python benchmarks/advise.py --out advise-out [--processes 16] [--minutes 2] [--seeds 5]
        [--problems digits-50,heart-disease] [--grid-seeds 5] [--rounds N] [--list]

For each problem and seed the advice is given within the minutes, on validation samples only. Then every candidate at every
rate runs on the test set over the grid's seeds. Regret is the best mean of that grid minus the mean of what was advised, in
points of balanced accuracy; it cannot be negative, and the best of many noisy means flatters itself, so that some regret is
noise. The same command goes on after any stop; what is done is kept in OUT, the result in OUT/advise.json and advise.md.
"""

from __future__ import annotations

import argparse
import json
import statistics
import sys
import time
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any, NamedTuple

from counterpoise.advice.advise import RATES, advise_on
from counterpoise.advice.outlook import Outlook, look
from counterpoise.advice.page import DATA, write_advice
from counterpoise.advice.race import Board
from counterpoise.advice.rules import BASELINE
from counterpoise.advice.trials import Course, Trial, trials_of
from counterpoise.errors import CounterpoiseError
from counterpoise.run.config.experiment import make_experiment
from counterpoise.sweep.jobs import Job, result_of
from counterpoise.sweep.run import Execution, Tally, run_jobs
from counterpoise.system.atomic import write_atomically

GOAL = "balanced_accuracy"
APART = 10_000  # between the seeds of one advice and the next, so that none shares a run with another or with the grid
CLOSE = 1.0  # points of regret that are called close

Tables = dict[str, Any]


def digits(imbalance: float, alpha: float) -> Tables:
    return {
        "rounds": 40,
        "data": {"name": "digits", "imbalance": imbalance},
        "partition": {"name": "dirichlet", "clients": 10, "alpha": alpha},
        "local": {"lr": 0.1, "epochs": 2, "batch_size": 16},
    }


def fashion(imbalance: float, alpha: float) -> Tables:
    return {
        "rounds": 40,
        "data": {"name": "fashion_mnist", "imbalance": imbalance},
        "partition": {"name": "dirichlet", "clients": 20, "alpha": alpha},
        "cohort": {"size": 5},
        "model": {"name": "mlp_001"},
        "local": {"lr": 0.05, "batch_size": 32},
    }


def table(name: str, alpha: float, **data: Any) -> Tables:
    """A table cut among fifty clients, five a round."""
    return {
        "rounds": 30,
        "data": {"name": name, **data},
        "partition": {"name": "dirichlet", "clients": 50, "alpha": alpha},
        "cohort": {"size": 5},
        "model": {"name": "mlp", "hidden": [64]},
        "local": {"lr": 0.05, "batch_size": 64},
    }


def natural(name: str, rounds: int, batch: int, hidden: int, size: int | None = None) -> Tables:
    """Clients as the data has them."""
    return {
        "rounds": rounds,
        "data": {"name": name},
        "partition": {"name": "natural", "clients": 0},
        "model": {"name": "mlp", "hidden": [hidden]},
        "local": {"lr": 0.05, "batch_size": batch},
    } | ({"cohort": {"size": size}} if size else {})


PROBLEMS: dict[str, Tables] = {
    "heart-disease": natural("heart_disease", 30, 16, 16),
    "hapt": natural("hapt", 30, 32, 64, 5),
    "adult": table("adult", 100.0),
    "adult-skewed": table("adult", 0.3),
    "unsw": table("unsw_nb15", 100.0),
    "unsw-skewed": table("unsw_nb15", 0.3),
    "nsl-kdd": table("nsl_kdd", 100.0),
    "nsl-kdd-skewed": table("nsl_kdd", 0.3),
    "digits-1": digits(1.0, 0.3),
    "digits-10": digits(10.0, 100.0),
    "digits-20-skewed": digits(20.0, 0.3),
    "digits-50": digits(50.0, 100.0),
    "digits-50-skewed": digits(50.0, 0.1),
    "fashion-1-skewed": fashion(1.0, 0.1),
    "fashion-10": fashion(10.0, 100.0),
    "fashion-10-skewed": fashion(10.0, 0.3),
    "fashion-50": fashion(50.0, 100.0),
    "fashion-50-skewed": fashion(50.0, 0.1),
    "fashion-100": fashion(100.0, 100.0),
    "fashion-100-skewed": fashion(100.0, 0.3),
}


class Advised(NamedTuple):
    """One advice: what to run, how sure, and the seconds it took."""

    trial: Trial
    confidence: str
    gain: float
    seconds: float


class Outcome(NamedTuple):
    """A problem: regrets in points by seed of the advice, and what the whole grid took."""

    problem: str
    best: str
    regrets: list[float]
    baseline_regret: float  # of FedAvg at the experiment's rate
    advised: list[str]
    confidence: list[str]
    promised: list[float]  # gain over FedAvg on validation samples, in points
    kept: list[float]  # the same on the test set
    advice_seconds: float  # of one advice, mean
    grid_seconds: float  # of one seed of the grid, spread over the processes


def main() -> int:
    given = arguments()
    if given.list:
        print("\n".join(PROBLEMS))
        return 0
    names = given.problems.split(",") if given.problems else list(PROBLEMS)
    if unknown := [name for name in names if name not in PROBLEMS]:
        print(f"error: no problem {unknown[0]!r}; --list shows all", file=sys.stderr)
        return 2
    outcomes: list[Outcome] = []
    for name in names:
        try:
            outcomes.append(study(name, given))
        except CounterpoiseError as error:  # a data set that is not here
            print(f"{name}: left out: {error}", file=sys.stderr)
            continue
        write_atomically(given.out / "advise.md", "\n".join(lines(outcomes)).encode() + b"\n")
        content = {"summary": summary(outcomes), "problems": [one._asdict() for one in outcomes]}
        write_atomically(given.out / "advise.json", json.dumps(content, indent=2).encode() + b"\n")
    print("\n".join(lines(outcomes)))
    return 0


def arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--out", type=Path, default=Path("advise-out"))
    parser.add_argument("--problems", default="", help="names separated by commas; by default all")
    parser.add_argument("--minutes", type=float, default=2.0, help="of each advice")
    parser.add_argument("--processes", type=int, default=2)
    parser.add_argument("--seeds", type=int, default=5, help="advices on each problem")
    parser.add_argument("--grid-seeds", type=int, default=5, help="seeds of the grid on the test set")
    parser.add_argument("--rounds", type=int, help="of every problem, for a quick look")
    parser.add_argument("--list", action="store_true", help="print the problems")
    return parser.parse_args()


def study(name: str, given: argparse.Namespace) -> Outcome:
    """The advices on a problem, then the grid."""
    tables = PROBLEMS[name] | ({"rounds": given.rounds} if given.rounds else {})
    experiment, execution = make_experiment(tables, name), Execution("local", given.processes)
    folder = given.out / name
    advised, trials = [], dict[str, Trial]()
    for number in range(given.seeds):
        seeded = replace(experiment, seed=(number + 1) * APART)
        outlook, course = look(seeded, GOAL)
        trials |= {trial.name: trial for trial in trials_of(outlook.candidates, experiment.local, RATES)}
        advised.append(advise_once(outlook, course, folder / f"advice{number}", given.minutes, execution))
        tell(
            f"{name}, advice {number + 1} of {given.seeds}: {advised[-1].trial.name}, {advised[-1].seconds:.0f} s"
        )
    trials |= {one.trial.name: one.trial for one in advised}
    grid, seconds = run_grid(
        Course(experiment, 0.0), list(trials.values()), given.grid_seeds, folder / "grid", execution
    )
    return compare(name, advised, grid, seconds / max(given.grid_seeds, 1) / given.processes)


def advise_once(outlook: Outlook, course: Course, out: Path, minutes: float, execution: Execution) -> Advised:
    """An advice, or what a former call of this script was told."""
    done = out / "done.json"
    if not done.exists():
        began = time.perf_counter()
        found = advise_on(outlook, course, out, minutes, execution, quiet)
        write_advice(found, out)
        spent = json.loads((out / "advice.json").read_text())["spent"]
        seconds = max(spent, time.perf_counter() - began)
        trial = {
            "label": found.trial.label,
            "method": found.trial.method,
            "setting": dict(found.trial.setting),
        }
        write_atomically(done, json.dumps({"trial": trial, "seconds": seconds}).encode())
    told, known = json.loads(done.read_text()), json.loads((out / DATA).read_text())["recommendation"]
    gain = known["difference"] if known["method"] == known["leader"] else 0.0
    return Advised(Trial(**told["trial"], why=""), known["confidence"], gain, told["seconds"])


def run_grid(
    course: Course, trials: Sequence[Trial], seeds: int, out: Path, execution: Execution
) -> tuple[dict[str, float], float]:
    """Mean test score of each trial that ended with every seed, and the seconds of all runs together."""
    jobs = [on_test(job) for job in course.jobs(trials, course.experiment.rounds, range(seeds))]
    out.mkdir(parents=True, exist_ok=True)
    run_jobs("grid", jobs, out, execution, Ticker(out))
    runs = [result_of(job.path(out)) for job in jobs]
    means = {}
    for place, trial in enumerate(trials):
        mine = [
            run.summary[GOAL]
            for run in runs[place :: len(trials)]
            if run is not None and run.has_result and run.summary
        ]
        if len(mine) == seeds:
            means[trial.name] = statistics.fmean(mine)
    return means, sum(sum(run.seconds) for run in runs if run is not None)


def on_test(job: Job) -> Job:
    """The same run with all training samples, scored on the test set."""
    return job._replace(tuning=False, held=0.0)


def compare(name: str, advised: Sequence[Advised], grid: Mapping[str, float], grid_seconds: float) -> Outcome:
    best = max(grid, key=lambda trial: grid[trial])
    plain = next(score for trial, score in grid.items() if trial.split()[0] == BASELINE)
    scores = [grid.get(one.trial.name, 0.0) for one in advised]
    return Outcome(
        name,
        best,
        [100 * (grid[best] - score) for score in scores],
        100 * (grid[best] - plain),
        [one.trial.name for one in advised],
        [one.confidence for one in advised],
        [100 * one.gain for one in advised],
        [100 * (score - plain) for score in scores],
        statistics.fmean(one.seconds for one in advised),
        grid_seconds,
    )


def summary(outcomes: Sequence[Outcome]) -> dict[str, float]:
    """Over all advices on all problems."""
    regrets = [regret for one in outcomes for regret in one.regrets]
    return {
        "problems": len(outcomes),
        "advices": len(regrets),
        "median_regret": statistics.median(regrets),
        "worst_regret": max(regrets),
        "share_within_one_point": sum(regret <= CLOSE for regret in regrets) / len(regrets),
        "median_regret_of_fedavg": statistics.median(one.baseline_regret for one in outcomes),
        "advice_seconds": sum(one.advice_seconds for one in outcomes),
        "grid_seconds": sum(one.grid_seconds for one in outcomes),
    }


def lines(outcomes: Sequence[Outcome]) -> Iterator[str]:
    """The result as Markdown."""
    yield "| problem | best in hindsight | advised (times) | regret: median | worst | within 1 point | FedAvg's regret | confidence | advice s | grid s, one seed |"
    yield "| --- | --- | --- | ---: | ---: | ---: | ---: | --- | ---: | ---: |"
    for one in outcomes:
        close = sum(regret <= CLOSE for regret in one.regrets)
        cells = [
            one.problem, one.best, counted(one.advised), f"{statistics.median(one.regrets):.1f}", f"{max(one.regrets):.1f}",
            f"{close}/{len(one.regrets)}", f"{one.baseline_regret:.1f}", counted(one.confidence), f"{one.advice_seconds:.0f}", f"{one.grid_seconds:.0f}",
        ]  # fmt: skip
        yield f"| {' | '.join(cells)} |"
    if outcomes:
        known = summary(outcomes)
        yield ""
        yield (
            f"{known['advices']} advices on {known['problems']} problems: regret {known['median_regret']:.2f} points in the median, {known['worst_regret']:.1f} at worst,"
            f" {known['share_within_one_point']:.0%} within one point; FedAvg as given: {known['median_regret_of_fedavg']:.1f} in the median."
            f" An advice took {known['advice_seconds']:.0f} s over all problems, one seed of the whole grid {known['grid_seconds']:.0f} s."
        )


def counted(words: Sequence[str]) -> str:
    return ", ".join(f"{word} ({times})" for word, times in Counter(words).most_common())


class Ticker:
    """A line now and then on how far a grid is."""

    def __init__(self, out: Path) -> None:
        self._out, self._last = out, 0.0

    def __call__(self, tally: Tally) -> None:
        if time.monotonic() - self._last > 30:
            tell(f"{self._out.parent.name}: {tally.done} of {tally.runs} runs of the grid")
            self._last = time.monotonic()


def quiet(board: Board) -> None:
    """The advice shows nothing here."""


def tell(words: str) -> None:
    print(words, file=sys.stderr, flush=True)


if __name__ == "__main__":
    sys.exit(main())
