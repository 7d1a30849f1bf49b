"""The command `report`: runs as one HTML file."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Literal

import typer


def add_to(app: typer.Typer) -> None:
    app.command()(report)


def report(
    folders: Annotated[
        list[Path], typer.Argument(metavar="DIR...", help="Folders of runs, or folders that hold some.")
    ],
    out: Annotated[
        Path | None,
        typer.Option("--out", "-o", help="File to write; by default report.html in the first DIR."),
    ] = None,
    score: Annotated[str, typer.Option(help="Score that verdicts are about.")] = "balanced_accuracy",
    at: Annotated[
        Literal["last", "best", "mean_last_10"], typer.Option(help="Which evaluation counts.")
    ] = "last",
    baseline: Annotated[
        str | None,
        typer.Option(help="Method that the others are tested against; by default fedavg, else the first."),
    ] = None,
    open_: Annotated[bool, typer.Option("--open", help="Show it in the browser.")] = False,
) -> None:
    """Write one HTML file about these runs, finished or not. It opens offline and holds all that it shows."""
    from counterpoise.compare.results import read_results
    from counterpoise.report.html import write_report

    path = out or folders[0] / "report.html"
    written = write_report(read_results(folders), path, score=score, at=at, baseline=baseline)
    typer.echo(str(written))
    if open_:
        typer.launch(written.resolve().as_uri())
