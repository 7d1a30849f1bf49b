"""`ls runs`: the runs of a folder, grouped by sweep, data set and method, fitted to a terminal."""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping, Sequence
from datetime import datetime
from pathlib import Path
from typing import TYPE_CHECKING, Any

import typer

from counterpoise.cli.runs import percent, wide_console
from counterpoise.errors import ConfigError, legal_words, printable, short

if TYPE_CHECKING:
    from rich.console import Console

    from counterpoise.results.progress import Progress

HEADERS = {
    "run": "run",
    "method": "method",
    "problem": "problem",
    "data": "data",
    "file": "file",
    "seed": "seed",
    "state": "state",
    "short_state": "state",
    "accuracy": "accuracy",
    "balanced": "balanced",
    "tail": "tail",
    "when": "when",
}
STAND_INS = {"problem": "data", "state": "short_state"}  # shorter columns that replace wide ones
LESSER = ("file", "problem", "state", "when", "tail", "accuracy")  # replaced or dropped in this order
FAIR = {"run": 24, "method": 16, "data": 16}  # characters of a name for which other columns are dropped
SHORTEST = 8  # characters of a run's folder
DEFAULT = "data"
BEST = "note: best {} on the test set of each problem; such picks are too good: `counterpoise report` compares methods over seeds"

Cells = Mapping[str, str]  # by column


def list_runs(folder: Path, as_json: bool, sort: str | None = None, best: bool = False) -> None:
    """Every run at or below a folder, one line each; or only the best of each problem."""
    from counterpoise.cli.groups import best_runs
    from counterpoise.metrics.catalogue import find, headline
    from counterpoise.results.progress import read_progress
    from counterpoise.results.results import find_runs

    key = None if sort is None and as_json else sort_key(sort or DEFAULT)
    found = [read_progress(path) for path in find_runs([folder])]
    score = sort if sort in headline() else "balanced_accuracy"
    picked = best_runs(found, score) if best else found
    ordered = picked if key is None else sorted(picked, key=key)
    if as_json:
        typer.echo(json.dumps([_as_plain(run) for run in ordered], indent=2))
        return
    if ordered:
        _print_groups(ordered, found, wide_console())
    else:
        which = f"finished run with the score {score}" if found else "run"
        typer.echo(f"no {which} in {folder}")
    if best and ordered:
        typer.echo(BEST.format(find(score).short), err=True)


def _print_groups(listed: Sequence[Progress], found: Sequence[Progress], console: Console) -> None:
    from counterpoise.cli.groups import by_sweep

    groups = by_sweep(listed, found)
    for number, group in enumerate(groups):
        if len(groups) > 1 or group.sweep is not None:
            console.print("\n" * (number > 0) + group.heading, style="bold", markup=False, soft_wrap=True)
        print_runs(group.runs, console)


def sort_key(word: str) -> Callable[[Progress], Any]:
    """The sort key: names ascending, the best score and the newest first; ties by data, method and seed."""
    from counterpoise.metrics.catalogue import find, headline

    names: dict[str, Callable[[Progress], Any]] = {
        "run": lambda run: str(run.path),
        "file": lambda run: run.file,
        "state": lambda run: run.state,
        "when": lambda run: -run.changed,
        "data": lambda run: "",
        "method": lambda run: run.method,
        "seed": lambda run: run.seed,
    }
    if word in names:
        return lambda run: (names[word](run), *_group(run))
    if word not in headline():
        known = [*names, *headline()]
        raise ConfigError(f"--sort {short(word)}: no such key; {legal_words(word, known, few=len(known))}")
    sign = 1 if find(word).lower else -1
    return lambda run: (*_best_first(run.last(word), sign), *_group(run))


def _best_first(score: float | None, sign: int) -> tuple[bool, float]:
    return score is None, sign * (score or 0.0)


def _group(run: Progress) -> tuple[Any, ...]:
    """Data set, problem, method, seed; runs that cannot be read come first."""
    return run.data, run.problem, run.method, run.seed, str(run.path)


def _as_plain(run: Progress) -> dict[str, Any]:
    from counterpoise.metrics.catalogue import headline
    from counterpoise.results.progress import problem_words

    about: dict[str, Any] = {"folder": str(run.path), "state": run.state, "trouble": run.trouble}
    about["file"], about["sweep"] = run.file or None, None if run.sweep is None else str(run.sweep)
    about["changed"] = datetime.fromtimestamp(run.changed).astimezone().isoformat(timespec="seconds")
    if run.result is None:
        return about
    return {
        **about,
        "method": run.method,
        "data": run.data,
        "problem": problem_words(run.result.config),
        "seed": run.seed,
        "round": run.round,
        "rounds": run.rounds,
        "scores": {key: run.last(key) for key in headline()},
    }


def print_runs(runs: Sequence[Progress], console: Console) -> None:
    """A table of the runs, and errors below it."""
    from rich.table import Table
    from rich.text import Text

    # Escaped before the widths are measured.
    lines = [{column: printable(cell) for column, cell in _cells(run).items()} for run in runs]
    widths = arrange(lines, console.width)
    table = Table(box=None, pad_edge=False, header_style="bold")
    for column in widths:
        table.add_column(HEADERS[column], no_wrap=True)
    for cells in lines:
        table.add_row(*(Text(_cut(cells[column], widths[column])) for column in widths))
    console.print(table)
    for run in runs:
        if run.trouble is not None:
            console.print(f"{run.path}: {run.trouble}", markup=False, soft_wrap=True)


def arrange(lines: Sequence[Cells], width: int) -> dict[str, int]:
    """The columns that fit and their widths: less important columns are dropped, then names are cut."""
    from counterpoise.cli.frame import GAP

    wide = {key: max(len(HEADERS[key]), *(len(cells[key]) for cells in lines)) for key in HEADERS}
    columns = [key for key in HEADERS if key not in STAND_INS.values()]
    if not any(cells["file"] for cells in lines):  # runs of a sweep, or of older versions
        columns.remove("file")
    fair = {key: min(wide[key], FAIR.get(key, wide[key])) for key in HEADERS}
    for column in [name for name in LESSER if name in columns]:
        if sum(GAP + fair[key] for key in columns) - GAP <= width:
            break
        place = columns.index(column)
        columns[place : place + 1] = [STAND_INS[column]] if column in STAND_INS else []
    spare = width - sum(GAP + fair[key] for key in columns) + GAP
    found = {key: fair[key] for key in columns} | {"run": max(fair["run"] + min(spare, 0), SHORTEST)}
    for name in [name for name in FAIR if name in columns]:
        more = max(min(wide[name] - found[name], spare), 0)
        found[name], spare = found[name] + more, spare - more
    return found


def _cut(text: str, width: int) -> str:
    from counterpoise.cli.frame import shorten

    return shorten(text, width)


def _cells(run: Progress) -> Cells:
    done = run.state in ("done", "unreadable")
    return {
        "run": str(run.path),
        "method": run.method,
        "problem": run.problem,
        "data": run.data,
        "file": run.file,
        "seed": str(run.seed) if run.result else "",
        "state": run.words,
        "short_state": run.state if done else f"{run.state} {run.round}/{run.rounds}",
        "accuracy": percent(run.last("accuracy")),
        "balanced": percent(run.last("balanced_accuracy")),
        "tail": percent(run.last("tail")),
        "when": datetime.fromtimestamp(run.changed).strftime("%Y-%m-%d %H:%M"),
    }
