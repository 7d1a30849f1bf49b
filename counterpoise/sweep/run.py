"""A sweep: tune, run what is missing, compare, report."""

from __future__ import annotations

from collections.abc import Callable, Generator, Iterator, Mapping, Sequence
from contextlib import closing, contextmanager
from dataclasses import replace
from pathlib import Path
from typing import Any, Literal, NamedTuple, TypeAlias

import torch

from counterpoise.engines.processes import available_cores
from counterpoise.errors import ConfigError
from counterpoise.report.client_tables import write_client_tables
from counterpoise.report.figures import write_figures
from counterpoise.report.html import write_report
from counterpoise.report.html.study import Study, study
from counterpoise.report.render import write_tables
from counterpoise.results.comparison import Comparison
from counterpoise.results.labels import Labels
from counterpoise.results.results import read_runs
from counterpoise.run.store.folder import SWEEP, RunFolder, check_alone
from counterpoise.sweep.execute import Event, one_by_one, share_out
from counterpoise.sweep.foreseen import changed_notes, edge_notes
from counterpoise.sweep.jobs import Job, check_folders, check_scores, expand, given_up, is_over, result_of
from counterpoise.sweep.orders import Group, group, order
from counterpoise.sweep.sweep import Sweep, load_sweep, write_sweep
from counterpoise.sweep.tune import Tuned, choose_settings, jobs_of, searches_of, write_tuning
from counterpoise.sweep.workers import WorkerPool
from counterpoise.system.atomic import clear_temporaries, write_atomically

UNTUNED = "not run: none of its settings could be scored"


Where: TypeAlias = Literal["local", "ray"]


class Execution(NamedTuple):
    """Where runs are executed, and how many at once."""

    on: Where = "local"
    processes: int = 1


def default_execution(processes: int | None, on: Where = "local") -> Execution:
    """So many runs at once; by default one per core, or one at a time on a GPU."""
    return Execution(on, processes or (1 if torch.cuda.is_available() else available_cores()))


class Tally(NamedTuple):
    """Counts of runs by state."""

    what: str  # "tuning" or "runs"
    runs: int
    done: int
    running: int = 0
    failed: int = 0

    def after(self, event: Event) -> Tally:
        if not event.ended:
            return self._replace(running=self.running + 1)
        failed = event.error is not None
        return self._replace(
            running=self.running - 1, done=self.done + (not failed), failed=self.failed + failed
        )


Show = Callable[[Tally], None]
Failures = dict[Path, str]  # folder of a run -> why, in one line


class Finished(NamedTuple):
    """The result of a sweep."""

    out: Path
    jobs: Sequence[Job]
    tuned: Sequence[Tuned]
    unscored: Failures  # tuning runs that failed: their settings were not chosen
    failures: Failures
    given_up: Failures
    comparison: Comparison
    report: Path


def run_sweep(sweep: Sweep, out: Path, execution: Execution, show: Show = lambda tally: None) -> Finished:
    """Run what is missing, then write tables and report; the same call continues after any stop."""
    searches = searches_of(sweep)
    first = expand(sweep)  # an invalid sweep is refused here, before anything is written
    check_scores(sweep, first)
    with hold_folder(out, SWEEP):
        check_folders([*jobs_of(searches), *(first if sweep.tune is None else ())], out)
        before = (out / SWEEP).read_bytes() if (out / SWEEP).exists() else None
        write_atomically(out / SWEEP, write_sweep(sweep).encode())
        with WorkerPool(execution.processes) as pool:
            failures, lost = run_jobs("tuning", jobs_of(searches), out, execution, show, pool)
            unscored = failures | lost
            tuned = choose_settings(sweep, searches, out)
            jobs, untuned = _decide(sweep, tuned, out)
            if sweep.tune is not None:
                _check_chosen(jobs, out, before)
                write_tuning(tuned, sweep.tune, out)
            failures, lost = run_jobs("runs", jobs, out, execution, show, pool)
        ended = _conclude(_study(sweep, out, jobs), out)
        return Finished(out, jobs, tuned, unscored, untuned | failures, lost, *ended)


def run_jobs(
    what: str,
    jobs: Sequence[Job],
    out: Path,
    execution: Execution,
    show: Show,
    pool: WorkerPool | None = None,
) -> tuple[Failures, Failures]:
    """Execute what is left; returns the runs that failed, and those that were given up, now or before.

    `pool`: local workers that stay for further jobs; without one they end with these.
    A run that was given up would end the same way again, and has no result even if it reached its last round.
    """
    check_folders(jobs, out)
    todo = [job for job in jobs if not is_over(job, out)]
    orders = [order(job, out, alone=execution == Execution()) for job in todo]
    paths = {one.path: job.path(out) for one, job in zip(orders, todo, strict=True)}
    tally, failures = Tally(what, len(jobs), len(jobs) - len(todo)), Failures()
    show(tally)
    with closing(_execute(group(orders), execution, pool)) as events:
        for event in events:
            tally = tally.after(event)
            show(tally)
            if event.error is not None:
                failures[paths[event.path]] = event.error
    lost = _given_up(jobs, out)
    return {path: error for path, error in failures.items() if path not in lost}, lost


def _check_chosen(jobs: Sequence[Job], out: Path, before: bytes | None) -> None:
    """Refuse settings that finished runs do not have, and leave the folder's sweep as it was: its table still holds."""
    try:
        check_folders(jobs, out)
    except ConfigError:
        if before is not None:
            write_atomically(out / SWEEP, before)
        raise


def _given_up(jobs: Sequence[Job], out: Path) -> Failures:
    reasons = {path: given_up(job, result_of(path)) for job in jobs for path in [job.path(out)]}
    return {path: why for path, why in reasons.items() if why is not None}


@contextmanager
def hold_folder(out: Path, own: str) -> Iterator[None]:
    """Lock the folder of a sweep or of advice, as the file `own` says: one at a time, and nothing else in the same place."""
    check_alone(out, own)
    try:
        out.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise ConfigError(f"{out} cannot be created: {error.strerror}") from None
    with RunFolder(out).locked():
        clear_temporaries(out)
        yield


def _execute(
    groups: Sequence[Group], execution: Execution, pool: WorkerPool | None = None
) -> Generator[Event]:
    if groups and execution.on == "ray":
        from counterpoise.sweep.cluster import on_ray

        yield from on_ray(groups, execution.processes)
    elif execution.processes == 1:
        yield from one_by_one(groups)
    elif pool is not None:
        yield from share_out(groups, pool)
    else:
        with WorkerPool(execution.processes) as own:
            yield from share_out(groups, own)


def _decide(sweep: Sweep, tuned: Sequence[Tuned], out: Path) -> tuple[list[Job], Failures]:
    """The runs with the settings that tuning chose, and those for which it found none."""
    chosen = {(one.search.method, one.search.problem): one.chosen for one in tuned}
    jobs = expand(sweep, {key: setting for key, setting in chosen.items() if setting is not None})
    untuned = [job for job in jobs if chosen.get((job.method, job.problem), {}) is None]
    return [job for job in jobs if job not in untuned], {job.path(out): UNTUNED for job in untuned}


def read_sweep(out: Path, given: Mapping[str, Any]) -> Study:
    """The runs of a sweep's folder, compared with the options of its [table], which `given` overrides."""
    sweep = load_sweep(out / SWEEP)
    table = replace(sweep.table, **{key: value for key, value in given.items() if value is not None})
    known = _study(replace(sweep, table=table), out, expand(sweep))
    if not known.results:
        unbegun = ConfigError(f"no run in {out}: the sweep there has not begun")
        raise next(iter(known.left_out.values()), unbegun)
    return known


def _study(sweep: Sweep, out: Path, jobs: Sequence[Job]) -> Study:
    """The runs, finished or not, paired by the labels of the sweep."""
    found = read_runs(job.path(out) for job in jobs if RunFolder(job.path(out)).holds_run())
    # With the jobs that have no setting from tuning: the baseline may be among them.
    labels = {job.path(out): Labels(job.problem, job.method) for job in (*expand(sweep), *jobs)}
    known = study(found, labels, **sweep.table.tables())
    notes = *known.comparison.notes, *edge_notes(sweep, out), *changed_notes(found.results)
    return known._replace(comparison=known.comparison._replace(notes=notes))


def _conclude(known: Study, out: Path) -> tuple[Comparison, Path]:
    """Write tables, figures and report."""
    write_tables(known.comparison, out)
    write_client_tables(known.groups, out)
    write_figures(known, out)
    return known.comparison, write_report(known, out / "report.html")
