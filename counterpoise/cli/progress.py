"""The progress bars of a sweep and of a download; nothing where standard error is no terminal."""

from __future__ import annotations

from typing import TYPE_CHECKING

from rich.progress import (
    BarColumn,
    DownloadColumn,
    TaskID,
    TextColumn,
    TimeElapsedColumn,
    TimeRemainingColumn,
    TransferSpeedColumn,
)

from counterpoise.run.progress import Bar

if TYPE_CHECKING:
    from counterpoise.sweep.run import Tally


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


class DownloadBar(Bar):
    """Size, speed and time left of each file."""

    def __init__(self) -> None:
        super().__init__(
            TextColumn("{task.description}"),
            BarColumn(),
            DownloadColumn(),
            TransferSpeedColumn(),
            TimeRemainingColumn(),
        )
        self._tasks: dict[str, TaskID] = {}

    def show(self, file: str, done: int, total: int) -> None:
        """Update the bar of a file."""
        if file not in self._tasks:
            self._tasks[file] = self._progress.add_task(file, total=total)
        self._progress.update(self._tasks[file], completed=done)
