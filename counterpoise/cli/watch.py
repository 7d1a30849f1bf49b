"""The command watch: progress of runs, live."""

from __future__ import annotations

import os
import select
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from counterpoise.cli.frame import COLOURS, frame
from counterpoise.cli.runs import wide_console

if TYPE_CHECKING:
    from rich.console import Console

    from counterpoise.results.progress import Progress
    from counterpoise.sweep.standing import Standing

TICK = 1.0  # seconds between frames
LULL = 10.0  # seconds without a new run after which a sweep whose runs have all ended is over

Key = Callable[[float], str]  # seconds to wait -> the key that was pressed, or nothing


def add_to(app: typer.Typer) -> None:
    app.command()(watch)


def watch(
    folder: Annotated[Path, typer.Argument(help="Folder of a run, or of many: a sweep, or runs/.")] = Path(
        "runs"
    ),
    once: Annotated[
        bool, typer.Option("--once", help="Print the progress once and exit, as without a terminal.")
    ] = False,
) -> None:
    """Show the progress of runs until all have ended; q or Ctrl-C quits. The runs are not disturbed."""
    console, runs = wide_console(), Runs(folder)
    runs.refresh()
    if once or not console.is_terminal:
        console.print(frame(runs.folder, runs.all, console, tuning=runs.tuning(), to_come=runs.to_come()))
        return
    with suppress(KeyboardInterrupt), pressed_keys() as key:
        follow(runs, console, key)


class Runs:
    """All runs of a folder; each is read again only when it has changed."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self._seen: dict[Path, tuple[object, Progress]] = {}
        self._sweeps: dict[Path, Standing] = {}

    @property
    def all(self) -> list[Progress]:
        """Running and failed runs first."""
        return sorted((run for _, run in self._seen.values()), key=lambda run: list(COLOURS).index(run.state))

    def refresh(self) -> None:
        from counterpoise.results.progress import is_locked, last_change, read_progress
        from counterpoise.results.results import find_runs

        before, self._seen = self._seen, {}
        for path in find_runs([self.folder]):
            mark = last_change(path), is_locked(path)
            known = before.get(path)
            self._seen[path] = known if known and known[0] == mark else (mark, read_progress(path))

        self._find_sweeps()

    def _find_sweeps(self) -> None:
        """Sweeps that began since the last look; what they are does not change."""
        from counterpoise.run.store.folder import SWEEP

        found = {
            path.parent for path in (self.folder / SWEEP, *self.folder.glob(f"*/{SWEEP}")) if path.exists()
        }
        if found - self._sweeps.keys():
            from counterpoise.sweep.standing import sweeps_at

            self._sweeps = {one.out: self._sweeps.get(one.out, one) for one in sweeps_at(self.folder)}

    def tuning(self) -> list[str]:
        """How far the tuning of each sweep is."""
        return [line for _, sweep in sorted(self._sweeps.items()) for line in sweep.lines()]

    def to_come(self) -> tuple[int, int]:
        """Runs and rounds that sweeps have planned and not begun."""
        amounts = [sweep.to_come(self.all) for sweep in self._sweeps.values()]
        return sum(one.runs for one in amounts), sum(one.rounds for one in amounts)

    def over(self) -> bool:
        """Whether all have ended, and no other is about to begin."""
        if any(sweep.going_on for sweep in self._sweeps.values()):
            return False
        ended = all(run.state in ("done", "failed", "unreadable") for run in self.all)
        quiet = time.time() - max((run.changed for run in self.all), default=time.time())
        return ended and (self.folder in self._seen or quiet > LULL)


def follow(runs: Runs, console: Console, key: Key) -> None:
    """Refresh the frame until the end; the last one stays."""
    from rich.live import Live

    with Live(console=console, auto_refresh=False) as live:
        while True:
            runs.refresh()
            tuning = runs.tuning()
            most = max(console.height - 6 - len(tuning), 3)
            live.update(frame(runs.folder, runs.all, console, most, tuning, runs.to_come()), refresh=True)
            if runs.over() or key(TICK) == "q":
                return


@contextmanager
def pressed_keys() -> Iterator[Key]:
    """Reads single key presses, if standard input is a terminal."""
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
