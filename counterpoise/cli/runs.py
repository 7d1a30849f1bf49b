"""The command `diff`, and what other commands about runs share with it."""

from __future__ import annotations

import json
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

if TYPE_CHECKING:
    from rich.console import Console

    from counterpoise.results.difference import Difference
    from counterpoise.results.results import RunResult

LONGEST_VALUE = 60
UNBOUNDED = 10_000  # characters per line where output is no terminal

AsJson = Annotated[bool, typer.Option("--json", help="Print the result as JSON.")]


def add_to(app: typer.Typer) -> None:
    app.command()(diff)


def diff(
    one: Annotated[Path, typer.Argument(help="Folder of a run.")],
    other: Annotated[Path, typer.Argument(help="Folder of another run.")],
    as_json: AsJson = False,
) -> None:
    """Show what differs between two runs: config, versions, machine, data, and from which round on results."""
    from counterpoise.results.difference import difference

    found = difference(one_run(one), one_run(other))
    if as_json:
        typer.echo(json.dumps({"words": found.words, **found._asdict()}, indent=2))
    else:
        _print_difference(found, one, other)


def wide_console() -> Console:
    """A console that does not wrap lines where output is no terminal."""
    from counterpoise.cli.terminal import screen

    console = screen(highlight=False)
    return console if console.is_terminal else screen(highlight=False, width=UNBOUNDED)


def percent(value: float | None) -> str:
    return "" if value is None else f"{value:.1%}"


def one_run(path: Path) -> RunResult:
    """The run of a folder; a folder of several is refused, with one as an example."""
    from counterpoise.errors import ConfigError
    from counterpoise.results.results import find_runs, read_result
    from counterpoise.run.store.folder import RunFolder

    if RunFolder(path).holds_run():
        return read_result(path)
    below = find_runs([path])
    if not below:
        raise ConfigError(f"{path} holds no run: there is no config.toml in it")
    raise ConfigError(f"{path} must be the folder of one run, such as {below[0]}; it holds {len(below)} runs")


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
            table.add_row(f"  {escape(key)}", *map(escape, _shortened(*pair)))
    for cells in _result_rows(found):
        table.add_row(*cells)
    console = wide_console()
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


def _shortened(one: object, other: object) -> tuple[str, str]:
    """Both values; long ones cut to a piece around the first difference."""
    from counterpoise.results.difference import count_alike
    from counterpoise.results.labels import show

    texts = show(one), show(other)
    long = max(map(len, texts)) > LONGEST_VALUE
    start = max(count_alike(*texts) - LONGEST_VALUE // 2, 0) if long else 0
    first, second = (_piece(text, start) for text in texts)
    return first, second


def _piece(text: str, start: int) -> str:
    end = start + LONGEST_VALUE
    return "..." * (start > 0) + text[start:end] + "..." * (len(text) > end)
