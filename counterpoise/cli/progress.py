"""Progress bars of runs and sweeps; nothing where standard error is no terminal."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any, Self

from rich.progress import (
    BarColumn,
    Progress,
    ProgressColumn,
    TaskID,
    TextColumn,
    TimeElapsedColumn,
    TimeRemainingColumn,
)

from counterpoise.cli.terminal import screen
from counterpoise.run.listener import Listener

if TYPE_CHECKING:
    from counterpoise.run.store.run import Run
    from counterpoise.sweep.run import Tally


class Bar:
    """A progress bar on standard error, if it is a terminal."""

    def __init__(self, *columns: ProgressColumn) -> None:
        console = screen(stderr=True)
        self._progress = Progress(*columns, console=console, disable=not console.is_terminal)

    def __enter__(self) -> Self:
        self._progress.start()
        return self

    def __exit__(self, *error: object) -> None:
        self._progress.stop()

    def say(self, words: str) -> None:
        """Print a line above the bar."""
        self._progress.console.print(words, markup=False, highlight=False, soft_wrap=True)


class RunsBar(Bar):
    """Runs done, running and failed, and the time left."""

    def __init__(self) -> None:
        super().__init__(
            TextColumn("{task.description:<7}"),
            BarColumn(bar_width=30),
            TextColumn("{task.completed:.0f}/{task.total:.0f} {task.fields[words]}"),
            TimeElapsedColumn(),
            TextColumn("left"),
            TimeRemainingColumn(),
        )
        self._tasks: dict[str, TaskID] = {}

    def show(self, now: Tally) -> None:
        """Update the bar; runs done before the start do not count for the speed."""
        if not now.runs:
            return
        if now.what not in self._tasks:
            self._tasks[now.what] = self._progress.add_task(
                now.what, total=now.runs, completed=now.done, words=""
            )
        words = f"{now.running} running" + (f" [red]{now.failed} failed[/red]" if now.failed else "")
        self._progress.update(self._tasks[now.what], completed=now.done + now.failed, words=words)


class Live(Bar, Listener):
    """Round, accuracy, tail recall, loss and time left of one run."""

    def __init__(self) -> None:
        super().__init__(
            TextColumn("round {task.completed:.0f}/{task.total:.0f}"),
            BarColumn(bar_width=24),
            TextColumn("{task.fields[scores]}"),
            TimeRemainingColumn(),
        )
        self._task = self._progress.add_task("run", total=1, scores="")
        self._scores: dict[str, float] = {}

    def began(self, run: Run) -> None:
        """Print what the method's parts have to say before the run."""
        for part, note in run.simulation.notes.items():
            self.say(f"{part}: {note}")

    def round_ended(self, row: Mapping[str, Any], rounds: int) -> None:
        """Show the scores of a finished round."""
        from counterpoise.metrics.catalogue import find, shown_in

        # Rounds without an evaluation keep showing the last one.
        self._scores |= {name: row[name] for name in shown_in("line") if row.get(name) is not None}
        words = [f"{find(name).short} {value:.1%}" for name, value in self._scores.items()]
        words += [f"loss {row['loss']:.3f}"] if row["loss"] is not None else ["round skipped"]
        words += [f"[red]{len(row['rejected'])} bad replies[/red]"] if row["rejected"] else []
        self._progress.update(self._task, completed=row["round"] + 1, total=rounds, scores="  ".join(words))
