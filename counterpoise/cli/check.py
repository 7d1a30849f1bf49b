"""The command check: the contracts, tried on a plugin's part."""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Sequence
from typing import TYPE_CHECKING, Annotated

import typer

from counterpoise.cli.runs import AsJson
from counterpoise.errors import RunError

if TYPE_CHECKING:
    from rich.console import Console

    from counterpoise.contracts.check import State, Verdict

COLOURS: dict[State, str] = {"passed": "green", "failed": "red", "skipped": "yellow"}


def add_to(app: typer.Typer) -> None:
    app.command()(check)


def check(
    part: Annotated[
        str,
        typer.Argument(
            metavar="PART",
            help="A part or method by its name, as package.module:name, as path/to/file.py:name, or with arguments: '{ my_part = { rate = 0.5 } }'.",
        ),
    ],
    as_json: AsJson = False,
) -> None:
    """Try a part of your own against the contracts that every part keeps: engines agree, runs repeat and resume, hooks change nothing in place."""
    from counterpoise.cli.terminal import screen
    from counterpoise.contracts.check import check_part
    from counterpoise.contracts.load import read_part

    spec = read_part(part)
    console, verdicts = screen(highlight=False, soft_wrap=True), list["Verdict"]()
    for verdict in check_part(spec):
        verdicts.append(verdict)
        if not as_json:
            _print_row(console, verdict)
    if as_json:
        typer.echo(json.dumps([verdict._asdict() for verdict in verdicts], indent=2))
    else:
        typer.echo(_total(verdicts))
    if any(verdict.state == "failed" for verdict in verdicts):
        raise typer.Exit(RunError.exit_code)


def _print_row(console: Console, verdict: Verdict) -> None:
    from rich.markup import escape

    state = f"[{COLOURS[verdict.state]}]{verdict.state:<7}[/]"
    console.print(f"{state} {verdict.seconds:6.2f} s  {escape(verdict.words)}")
    if verdict.line:
        console.print(f"{'':<18}{escape(verdict.line)}")


def _total(verdicts: Sequence[Verdict]) -> str:
    from counterpoise.contracts.check import CONTRACTS

    counts = Counter(verdict.state for verdict in verdicts)
    words = ", ".join(f"{counts[state]} {state}" for state in COLOURS if counts[state])
    untried = len(CONTRACTS) - len(verdicts)
    left = f", {untried} not tried: mend the hook first" if untried else ""
    return f"{len(CONTRACTS)} contracts: {words}{left}; {sum(verdict.seconds for verdict in verdicts):.1f} s"
