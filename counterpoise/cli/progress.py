"""A line that shows how a sweep is doing; nothing where nobody is looking."""

from __future__ import annotations

from typing import TYPE_CHECKING

from rich.progress import BarColumn, Progress, TaskID, TextColumn, TimeElapsedColumn, TimeRemainingColumn

from counterpoise.cli.terminal import screen

if TYPE_CHECKING:
    from counterpoise.sweep.run import Tally


class RunsBar:
    """Runs done, running and failed, and the time left, on a terminal."""

    def __init__(self) -> None:
        console = screen(stderr=True)
        self._progress = Progress(
            TextColumn("{task.description:<7}"),
            BarColumn(bar_width=30),
            TextColumn("{task.completed:.0f}/{task.total:.0f} {task.fields[words]}"),
            TimeElapsedColumn(),
            TextColumn("left"),
            TimeRemainingColumn(),
            console=console,
            disable=not console.is_terminal,
        )
        self._tasks: dict[str, TaskID] = {}

    def __enter__(self) -> RunsBar:
        self._progress.start()
        return self

    def __exit__(self, *error: object) -> None:
        self._progress.stop()

    def show(self, now: Tally) -> None:
        """Where the runs are; what was done before does not count as speed."""
        if not now.runs:
            return
        if now.what not in self._tasks:
            self._tasks[now.what] = self._progress.add_task(
                now.what, total=now.runs, completed=now.done, words=""
            )
        words = f"{now.running} running" + (f" [red]{now.failed} failed[/red]" if now.failed else "")
        self._progress.update(self._tasks[now.what], completed=now.done + now.failed, words=words)
