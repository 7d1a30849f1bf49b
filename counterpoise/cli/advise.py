"""The command advise: which method for these data, with a live table of the race."""

from __future__ import annotations

import json
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Self

import typer

from counterpoise.cli.compare import GO_ON, Processes
from counterpoise.cli.experiments import File, Overrides, read_experiment
from counterpoise.cli.interrupt import interruptible
from counterpoise.cli.runs import AsJson, percent, wide_console

if TYPE_CHECKING:
    from rich.table import Table

    from counterpoise.advice.outlook import Outlook
    from counterpoise.advice.page import Advice
    from counterpoise.advice.race import Board

MOST = 20  # trials that the live table shows


def add_to(app: typer.Typer) -> None:
    app.command()(advise)


def advise(
    experiment: File,
    overrides: Overrides = None,
    minutes: Annotated[float, typer.Option(help="Time for trying candidates.")] = 10.0,
    goal: Annotated[
        str, typer.Option(help="balanced_accuracy, macro_f1, auprc, or recall:CLASS for one class.")
    ] = "balanced_accuracy",
    out: Annotated[
        Path | None,
        typer.Option(help="Folder of the trials; by default runs/ and the name of the file with -advice."),
    ] = None,
    processes: Processes = None,
    as_json: AsJson = False,
) -> None:
    """Recommend a method for the data of an experiment: candidates are raced on validation samples, never on the test set."""
    from counterpoise.advice.advise import advise_on, check_minutes
    from counterpoise.advice.outlook import look
    from counterpoise.advice.page import as_data, write_advice
    from counterpoise.sweep.run import default_execution

    check_minutes(minutes)
    config = read_experiment(experiment, overrides or [])
    outlook, course = look(config, goal)
    folder = out or Path("runs") / f"{experiment.stem}-advice"
    if not as_json:
        _print_outlook(outlook)
    with interruptible(lambda: GO_ON), LiveBoard() as board:
        found = advise_on(outlook, course, folder, minutes, default_execution(processes), board.show)
    advice = write_advice(found, folder)
    if as_json:
        typer.echo(
            json.dumps(as_data(found) | {"toml": str(advice.toml), "report": str(advice.report)}, indent=2)
        )
    else:
        _print_advice(advice)


def _print_outlook(outlook: Outlook) -> None:
    from counterpoise.sweep.specs import label_of

    console = wide_console()
    for line in (*outlook.data.words, outlook.held_words):
        console.print(line, markup=False)
    console.print("\ncandidates:")
    for one in outlook.candidates:
        console.print(f"  {label_of(one.method)}: {one.why}", markup=False)
    console.print()


def _print_advice(advice: Advice) -> None:
    console = wide_console()
    console.print(advice.paragraph, style="bold", markup=False)
    console.print(f"\nto run it: counterpoise run {advice.toml}", markup=False)
    console.print(f"report:    {advice.report}", markup=False)


class LiveBoard:
    """The race on standard error: a live table in a terminal, else a line for each stage."""

    def __init__(self) -> None:
        from rich.live import Live

        from counterpoise.cli.terminal import screen

        self._console, self._stage = screen(stderr=True, highlight=False), ""
        self._live = Live(console=self._console, auto_refresh=False, transient=True)

    def __enter__(self) -> Self:
        if self._console.is_terminal:
            self._live.start()
        return self

    def __exit__(self, *error: object) -> None:
        self._live.stop()

    def show(self, board: Board) -> None:
        if self._console.is_terminal:
            self._live.update(board_table(board), refresh=True)
        elif board.stage != self._stage:
            self._console.print(board.stage, markup=False)
        self._stage = board.stage


def board_table(board: Board) -> Table:
    """Trials by their mean so far, the best first."""
    from rich.table import Table
    from rich.text import Text

    table = Table(box=None, pad_edge=False, header_style="bold", title_justify="left")
    table.title = f"{board.stage}; {board.running} running, {board.left / 60:.1f} minutes left"
    for name in ("method", "setting", "score", "runs"):
        table.add_column(name, justify="left" if name in ("method", "setting") else "right")
    ranked = sorted(board.standings, key=lambda one: -1.0 if one.score is None else -one.score - 1)
    for one in ranked[:MOST]:
        setting = one.trial.name.removeprefix(one.trial.label).strip()
        cells = one.trial.label, setting, percent(one.score), f"{one.done}/{one.seeds}"
        table.add_row(*map(Text, cells), style="bold" if one.trial.is_baseline else "")
    return table
