"""The command that shows how runs are doing, as they are written."""

from __future__ import annotations

import os
import select
import sys
import time
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from counterpoise.cli.runs import percent, roomy_console

if TYPE_CHECKING:
    from rich.console import Console, Group, RenderableType

    from counterpoise.compare.progress import Progress

TICK = 1.0  # seconds between frames
LULL = 10.0  # a sweep whose runs have all ended, and that has begun no other for so long, is over
WIDTH = 20  # characters of a curve
BAR = 12  # and of a bar
STEPS, PLAIN_STEPS = "▁▂▃▄▅▆▇█", "_.-=+*#@"
COLUMNS = ("run", "state", "round", "", "accuracy", "", "tail", "loss", "rounds/s", "left")
COLOURS = {"running": "cyan", "failed": "red", "stopped": "yellow", "unreadable": "red", "done": "green"}

Key = Callable[[float], str]  # seconds to wait -> the key that was pressed, or nothing


def add_to(app: typer.Typer) -> None:
    app.command()(watch)


def watch(
    folder: Annotated[Path, typer.Argument(help="Folder of a run, or of many: a sweep, or runs/.")] = Path(
        "runs"
    ),
    once: Annotated[
        bool, typer.Option("--once", help="Print how they stand and end, as is done where no terminal is.")
    ] = False,
) -> None:
    """Follow runs as they are written, until all have ended; q or Ctrl-C leaves. The runs are not disturbed."""
    console, runs = roomy_console(), Runs(folder)
    runs.look()
    if once or not console.is_terminal:
        console.print(frame(runs, console))
        return
    with suppress(KeyboardInterrupt), pressed_keys() as key:
        follow(runs, console, key)


class Runs:
    """All runs of a folder; each is read again only when it has written."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self._seen: dict[Path, tuple[object, Progress]] = {}

    @property
    def all(self) -> list[Progress]:
        """First those that are at work or need a look."""
        return sorted((run for _, run in self._seen.values()), key=lambda run: list(COLOURS).index(run.state))

    def look(self) -> None:
        from counterpoise.compare.progress import is_locked, last_change, read_progress
        from counterpoise.compare.results import find_runs

        before, self._seen = self._seen, {}
        for path in find_runs([self.folder]):
            mark = last_change(path), is_locked(path)
            known = before.get(path)
            self._seen[path] = known if known and known[0] == mark else (mark, read_progress(path))

    def over(self) -> bool:
        """Whether all have ended, and none is about to begin."""
        ended = all(run.state in ("done", "failed", "unreadable") for run in self.all)
        quiet = time.time() - max((run.changed for run in self.all), default=time.time())
        return ended and (self.folder in self._seen or quiet > LULL)


def follow(runs: Runs, console: Console, key: Key) -> None:
    """Frame after frame; the last one stays."""
    from rich.live import Live

    with Live(console=console, auto_refresh=False) as live:
        while True:
            runs.look()
            live.update(frame(runs, console, most=max(console.height - 6, 3)), refresh=True)
            if runs.over() or key(TICK) == "q":
                return


@contextmanager
def pressed_keys() -> Iterator[Key]:
    """Keys at the moment they are pressed, where there is a keyboard."""
    if not sys.stdin.isatty():
        yield _wait
        return
    import termios
    import tty

    before = termios.tcgetattr(sys.stdin)
    try:
        tty.setcbreak(sys.stdin)
        yield _read_key
    finally:
        termios.tcsetattr(sys.stdin, termios.TCSADRAIN, before)


def _wait(seconds: float) -> str:
    time.sleep(seconds)
    return ""


def _read_key(seconds: float) -> str:
    ready, _, _ = select.select([sys.stdin], [], [], seconds)
    return os.read(sys.stdin.fileno(), 1).decode(errors="replace") if ready else ""


def frame(runs: Runs, console: Console, most: int | None = None) -> Group:
    """A heading, a line for each run, and what went wrong."""
    from rich.console import Group
    from rich.table import Table
    from rich.text import Text

    found = runs.all
    shown = found[:most]
    table = Table(box=None, pad_edge=False, header_style="bold")
    for name in COLUMNS:
        table.add_column(name, no_wrap=True, justify="left" if name in ("run", "state", "") else "right")
    steps = STEPS if console.encoding.startswith("utf") else PLAIN_STEPS
    for run in shown:
        table.add_row(*_cells(run, runs.folder, steps))
    rest = [Text(f"and {len(found) - len(shown)} more")] if len(found) > len(shown) else []
    troubles = [Text(f"{run.path}: {run.trouble}", style="red") for run in shown if run.trouble]
    return Group(Text(_heading(runs), style="bold"), *([table] if shown else []), *rest, *troubles)


def _heading(runs: Runs) -> str:
    found = runs.all
    counts = Counter(run.state for run in found)
    words = ", ".join(f"{counts[state]} {state}" for state in counts)
    done, rounds = sum(run.round for run in found), sum(run.rounds for run in found)
    share = f"; {done} of {rounds} rounds" if rounds else ""
    return f"{runs.folder}: {words}{share}" if found else f"{runs.folder}: no run yet"


def _cells(run: Progress, folder: Path, steps: str) -> Sequence[RenderableType]:
    from rich.progress_bar import ProgressBar
    from rich.text import Text

    name = run.path.name if run.path == folder else str(run.path.relative_to(folder))
    loss, running = run.last("loss"), run.state == "running"
    return (
        Text(name),
        Text(run.state, style=COLOURS[run.state]),
        f"{run.round}/{run.rounds}",
        ProgressBar(max(run.rounds, 1), run.round, width=BAR),
        percent(run.last("accuracy")),
        sparkline(run.curve("accuracy"), steps),
        percent(run.last("tail")),
        "" if loss is None else f"{loss:.3f}",
        "" if run.pace is None else f"{run.pace:.3g}",
        clock(run.left) if running and run.left is not None else "",
    )


def sparkline(values: Sequence[float], steps: str = STEPS, width: int = WIDTH) -> str:
    """A curve in one line, from its least value to its largest; of a long one, evenly picked points."""
    count = min(len(values), width)
    picked = [values[round(k * (len(values) - 1) / max(count - 1, 1))] for k in range(count)]
    low, high = min(picked, default=0.0), max(picked, default=0.0)
    scale = (len(steps) - 1) / (high - low) if high > low else 0.0
    return "".join(steps[round((value - low) * scale)] for value in picked)


def clock(seconds: float) -> str:
    minutes, rest = divmod(round(seconds), 60)
    hours, minutes = divmod(minutes, 60)
    return f"{hours}:{minutes:02d}:{rest:02d}" if hours else f"{minutes}:{rest:02d}"
