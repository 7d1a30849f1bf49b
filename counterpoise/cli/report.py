"""The command `report`: runs as one HTML file."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Literal

import typer

from counterpoise.cli.target import refuse_no_file

PAGES = (".html", ".htm")


def add_to(app: typer.Typer) -> None:
    app.command()(report)


def report(
    folders: Annotated[
        list[Path],
        typer.Argument(metavar="DIR...", help="The folder of a sweep, or folders that are or contain runs."),
    ],
    out: Annotated[
        Path | None,
        typer.Option("--out", "-o", help="File to write; by default report.html in the first DIR."),
    ] = None,
    score: Annotated[
        str | None,
        typer.Option(
            help="Score that methods are tested on; by default the sweep's, else balanced_accuracy."
        ),
    ] = None,
    at: Annotated[
        Literal["last", "best", "mean_last_10"] | None,
        typer.Option(help="Which evaluation counts; by default the sweep's, else the last."),
    ] = None,
    baseline: Annotated[
        str | None,
        typer.Option(
            help="Method that the others are tested against; by default the sweep's, else fedavg, else the first."
        ),
    ] = None,
    open_: Annotated[bool, typer.Option("--open", help="Open it in the browser.")] = False,
) -> None:
    """Write one HTML file about these runs, finished or not. It is self-contained and opens offline."""
    from counterpoise.report.html import write_report
    from counterpoise.report.html.study import study
    from counterpoise.results.results import read_folders
    from counterpoise.run.store.folder import SWEEP
    from counterpoise.sweep.run import read_sweep

    if out is not None:
        _check_page(out)
    given = {"score": score, "at": at, "baseline": baseline}
    if len(folders) == 1 and (folders[0] / SWEEP).exists():
        known = read_sweep(folders[0], given)
    else:
        known = study(read_folders(folders), None, **{key: value for key, value in given.items() if value})
    written = write_report(known, out or folders[0] / "report.html")
    typer.echo(str(written))
    if open_:
        typer.launch(written.resolve().as_uri())


def _check_page(out: Path) -> None:
    """Refuse what is no page before the runs are read; the folder of a page is made."""
    from counterpoise.errors import ConfigError, short

    if out.suffix.lower() not in PAGES:
        raise ConfigError(f"--out must be a file that ends in {PAGES[0]}, not {short(out)}")
    refuse_no_file(out)
