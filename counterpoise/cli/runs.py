"""Commands about runs that are there: `ls runs` and `diff`."""

from __future__ import annotations

import json
from collections.abc import Sequence
from datetime import datetime
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

if TYPE_CHECKING:
    from rich.console import Console

    from counterpoise.compare.difference import Difference
    from counterpoise.compare.progress import Progress
    from counterpoise.compare.results import RunResult

LONGEST_VALUE = 60
UNBOUNDED = 10_000  # characters a line where no terminal bounds it

AsJson = Annotated[bool, typer.Option("--json", help="Print JSON.")]


def add_to(app: typer.Typer) -> None:
    app.command()(diff)


def diff(
    one: Annotated[Path, typer.Argument(help="Folder of a run.")],
    other: Annotated[Path, typer.Argument(help="Folder of another run.")],
    as_json: AsJson = False,
) -> None:
    """What differs between two runs: config, versions, machine, data, and results from which round on."""
    from counterpoise.compare.difference import difference

    found = difference(_one_run(one), _one_run(other))
    if as_json:
        typer.echo(json.dumps({"words": found.words, **found._asdict()}, indent=2))
    else:
        _print_difference(found, one, other)


def list_runs(folder: Path, as_json: bool) -> None:
    """Every run at or below a folder, one line each."""
    from counterpoise.compare.progress import read_progress
    from counterpoise.compare.results import find_runs

    found = [read_progress(path) for path in find_runs([folder])]
    if as_json:
        typer.echo(json.dumps([_as_plain(run) for run in found], indent=2))
    elif found:
        _print_runs(found)
    else:
        typer.echo(f"no run in {folder}")


def roomy_console() -> Console:
    """Lines as long as they are where no terminal bounds them."""
    from counterpoise.cli.terminal import screen

    console = screen(highlight=False)
    return console if console.is_terminal else screen(highlight=False, width=UNBOUNDED)


def percent(value: float | None) -> str:
    return "" if value is None else f"{value:.1%}"


def _as_plain(run: Progress) -> dict[str, Any]:
    from counterpoise.compare.progress import problem_words
    from counterpoise.metrics.catalogue import headline

    about: dict[str, Any] = {"folder": str(run.path), "state": run.state, "trouble": run.trouble}
    about["changed"] = datetime.fromtimestamp(run.changed).astimezone().isoformat(timespec="seconds")
    if run.result is None:
        return about
    return {
        **about,
        "method": run.result.method,
        "problem": problem_words(run.result.config),
        "seed": run.result.seed,
        "round": run.round,
        "rounds": run.rounds,
        "scores": {key: run.last(key) for key in headline()},
    }


def _print_runs(found: Sequence[Progress]) -> None:
    from rich.markup import escape
    from rich.table import Table

    from counterpoise.compare.progress import problem_words
    from counterpoise.metrics.catalogue import find, shown_in

    scores = shown_in("line")
    table = Table(box=None, pad_edge=False, header_style="bold")
    for name in ("run", "method", "problem", "seed", "state", *(find(key).short for key in scores), "when"):
        table.add_column(name, no_wrap=name != "problem", overflow="fold")
    for run in found:
        named = (
            ("", "", "")
            if run.result is None
            else (run.result.method, problem_words(run.result.config), str(run.result.seed))
        )
        when = datetime.fromtimestamp(run.changed).strftime("%Y-%m-%d %H:%M")
        cells = (str(run.path), *named, run.words, *(percent(run.last(key)) for key in scores))
        table.add_row(*map(escape, cells), when)
    console = roomy_console()
    console.print(table)
    for run in found:
        if run.trouble is not None:
            console.print(f"{run.path}: {run.trouble}", markup=False, soft_wrap=True)


def _one_run(path: Path) -> RunResult:
    """The run of a folder; a folder of many is refused, with the name of one."""
    from counterpoise.compare.results import find_runs, read_result
    from counterpoise.errors import ConfigError
    from counterpoise.experiment.folder import RunFolder

    if RunFolder(path).holds_run():
        return read_result(path)
    below = find_runs([path])
    if not below:
        raise ConfigError(f"{path} holds no run: there is no config.toml in it")
    raise ConfigError(f"{path} holds {len(below)} runs; legal: the folder of one run, such as {below[0]}")


def _print_difference(found: Difference, one: Path, other: Path) -> None:
    from rich.markup import escape
    from rich.table import Table

    table = Table(box=None, pad_edge=False, header_style="bold")
    for name in ("", str(one), str(other), ""):
        table.add_column(escape(name), overflow="fold")
    for section in ("config", "versions", "machine", "data"):
        pairs = getattr(found, section)
        if pairs:
            table.add_row(f"[bold]{section}[/bold]")
        for key, pair in pairs.items():
            table.add_row(f"  {escape(key)}", *map(escape, _brief(*pair)))
    for cells in _result_rows(found):
        table.add_row(*cells)
    console = roomy_console()
    console.print(found.words, markup=False, soft_wrap=True)
    console.print()
    console.print(table)


def _result_rows(found: Difference) -> list[list[str]]:
    rows = [["[bold]results[/bold]"], ["  rounds done", *map(str, found.rounds)]]
    if None not in found.params_sha256:
        rows.append(["  SHA-256 of the model", *(sha[:16] for sha in found.params_sha256)])
    if min(found.rounds):
        rows.append(["  scores of round", *[str(found.scored_round or "none that both evaluated")] * 2])
    for key, (one, other) in found.last.items():
        if one is not None or other is not None:
            change = "" if one is None or other is None else f"{100 * (other - one):+.1f}"
            cells = [_last_and_best(*pair) for pair in zip((one, other), found.best[key], strict=True)]
            rows.append([f"  {key}", *cells, change])
    return rows


def _last_and_best(last: float | None, best: float | None) -> str:
    return "" if last is None else f"{percent(last)} (best {percent(best)})"


def _brief(one: object, other: object) -> tuple[str, str]:
    """Both values; of long ones a piece around the place where they begin to differ."""
    from counterpoise.compare.difference import count_alike
    from counterpoise.compare.labels import show

    texts = show(one), show(other)
    long = max(map(len, texts)) > LONGEST_VALUE
    start = max(count_alike(*texts) - LONGEST_VALUE // 2, 0) if long else 0
    first, second = (_piece(text, start) for text in texts)
    return first, second


def _piece(text: str, start: int) -> str:
    end = start + LONGEST_VALUE
    return "..." * (start > 0) + text[start:end] + "..." * (len(text) > end)
