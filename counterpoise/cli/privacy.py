"""The command `privacy`: what the server of a run learned of its clients."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Annotated

import typer

from counterpoise.cli.runs import AsJson, one_run


def add_to(app: typer.Typer) -> None:
    app.command()(privacy)


def privacy(
    folder: Annotated[Path, typer.Argument(metavar="DIR", help="Folder of a run.")], as_json: AsJson = False
) -> None:
    """Show what the server of a run learned of its clients: class counts, sums, updates, and what they tell."""
    from counterpoise.results.privacy import privacy_report
    from counterpoise.run.config.experiment import make_experiment
    from counterpoise.run.learned import learned_in

    run = one_run(folder)
    found = privacy_report(run, learned_in(make_experiment(run.config, str(folder))))
    if as_json:
        typer.echo(json.dumps({"sections": {one.title: one.lines for one in found}}, indent=2))
        return
    for number, one in enumerate(found):
        typer.echo("\n" * (number > 0) + one.title)
        for line in one.lines:
            typer.echo(f"  {line}")
