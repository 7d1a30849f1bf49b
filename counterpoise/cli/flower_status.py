"""The table of clients that `counterpoise flower status` shows."""

from __future__ import annotations

import json
import time
from contextlib import suppress
from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING, Any

import typer

from counterpoise.cli.runs import wide_console
from counterpoise.core.rounds import counted

if TYPE_CHECKING:
    from rich.console import Group

TICK = 0.5  # seconds between frames
QUIET = 30.0  # seconds without an update after which a note is shown
COLOURS = {"here": "green", "at work": "cyan", "gone": "red", "refused": "red", "not here yet": "yellow"}
COLUMNS = (
    "client",
    "state",
    "answered",
    "missed",
    "late",
    "refused",
    "MB sent",
    "MB received",
    "last answer, s",
    "why refused",
)


def show_status(folder: Path, live: bool, as_json: bool) -> None:
    from rich.live import Live

    from counterpoise.flower.job import JobFolder
    from counterpoise.flower.status import read_status

    path, console = JobFolder(folder).status, wide_console()
    found = read_status(path)
    if as_json:
        clients = {name: asdict(client) for name, client in found["clients"].items()}
        typer.echo(json.dumps({**found, "clients": clients}, indent=2))
        return
    if not live or not console.is_terminal:
        console.print(frame(found))
        return
    with suppress(KeyboardInterrupt), Live(frame(found), console=console, auto_refresh=False) as shown:
        while not found["state"].startswith(("done", "stopped")):
            time.sleep(TICK)
            found = read_status(path)
            shown.update(frame(found), refresh=True)


def frame(found: dict[str, Any]) -> Group:
    """The run's state, and one line per client."""
    from rich.console import Group
    from rich.table import Table
    from rich.text import Text

    table = Table(box=None, pad_edge=False, header_style="bold")
    for name in COLUMNS:
        left = name in ("client", "state", "why refused")
        table.add_column(name, justify="left" if left else "right", no_wrap=name != "why refused")
    for name, client in found["clients"].items():
        seconds = "" if client.seconds is None else f"{client.seconds:.2f}"
        counts = (client.answered, client.missed, client.late, client.refused)
        sizes = [f"{size / 1e6:.1f}" for size in (client.bytes_down, client.bytes_up)]
        state = Text(client.state, style=COLOURS.get(client.state, ""))
        table.add_row(Text(name), state, *map(str, counts), *sizes, seconds, Text(client.why))
    return Group(Text(_heading(found), style="bold"), table)


def _heading(found: dict[str, Any]) -> str:
    here = sum(client.state in ("here", "at work") for client in found["clients"].values())
    silent = time.time() - float(found["updated"])
    ended = str(found["state"]).startswith(("done", "stopped"))
    note = f"; nothing new for {silent:.0f} s" if silent > QUIET and not ended else ""
    return f"round {counted(found['round'])} of {found['rounds']}, {found['state']}; {here} of {len(found['clients'])} clients here{note}"
