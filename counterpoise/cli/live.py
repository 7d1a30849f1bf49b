"""A line that shows how a run is doing; nothing where nobody is looking."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from rich.progress import BarColumn, Progress, TextColumn, TimeRemainingColumn

from counterpoise.cli.terminal import screen
from counterpoise.run.listener import Listener


class Live(Listener):
    """Round, accuracy, tail recall, loss and time left, on a terminal."""

    def __init__(self) -> None:
        console = screen(stderr=True)
        self._progress = Progress(
            TextColumn("round {task.completed:.0f}/{task.total:.0f}"),
            BarColumn(bar_width=24),
            TextColumn("{task.fields[scores]}"),
            TimeRemainingColumn(),
            console=console,
            disable=not console.is_terminal,
        )
        self._task = self._progress.add_task("run", total=1, scores="")
        self._scores: dict[str, float] = {}

    def __enter__(self) -> Live:
        self._progress.start()
        return self

    def __exit__(self, *error: object) -> None:
        self._progress.stop()

    def say(self, words: str) -> None:
        """A line above the bar."""
        self._progress.console.print(words, markup=False, highlight=False, soft_wrap=True)

    def round_ended(self, row: Mapping[str, Any], rounds: int) -> None:
        """The row of a finished round."""
        from counterpoise.metrics.catalogue import find, shown_in

        # Rounds without an evaluation keep showing the last one.
        self._scores |= {name: row[name] for name in shown_in("line") if row.get(name) is not None}
        words = [f"{find(name).short} {value:.1%}" for name, value in self._scores.items()]
        words += [f"loss {row['loss']:.3f}"] if row["loss"] is not None else ["round skipped"]
        words += [f"[red]{len(row['rejected'])} bad replies[/red]"] if row["rejected"] else []
        self._progress.update(self._task, completed=row["round"] + 1, total=rounds, scores="  ".join(words))
