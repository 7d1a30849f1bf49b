"""Progress bar of one run on standard error; nothing where that is neither a terminal nor a notebook."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any, Self

from rich.progress import BarColumn, Progress, ProgressColumn, TextColumn, TimeRemainingColumn

from counterpoise.core.rounds import counted
from counterpoise.metrics.catalogue import find, shown_in
from counterpoise.run.listener import Listener
from counterpoise.system.screen import screen

if TYPE_CHECKING:
    from counterpoise.run.simulation import Simulation
    from counterpoise.run.store.stored import Run


class Bar:
    """A progress bar on standard error, if somebody sees it."""

    def __init__(self, *columns: ProgressColumn) -> None:
        console = screen(stderr=True)
        self._progress = Progress(
            *columns, console=console, disable=not (console.is_terminal or console.is_jupyter)
        )

    def __enter__(self) -> Self:
        self._progress.start()
        return self

    def __exit__(self, *error: object) -> None:
        self._progress.stop()

    def say(self, words: str) -> None:
        """Print a line above the bar."""
        self._progress.console.print(words, markup=False, highlight=False, soft_wrap=True)


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
        self.say_notes(run.simulation)

    def say_notes(self, simulation: Simulation) -> None:
        for part, note in simulation.notes.items():
            self.say(f"{part}: {note}")

    def round_ended(self, row: Mapping[str, Any], rounds: int) -> None:
        """Show the scores of a finished round."""
        # Rounds without an evaluation keep showing the last one.
        self._scores |= {name: row[name] for name in shown_in("line") if row.get(name) is not None}
        words = [f"{find(name).short} {value:.1%}" for name, value in self._scores.items()]
        words += [f"loss {row['loss']:.3f}"] if row["loss"] is not None else ["round skipped"]
        words += [f"[red]{len(row['rejected'])} bad replies[/red]"] if row["rejected"] else []
        self._progress.update(
            self._task, completed=counted(row["round"]), total=rounds, scores="  ".join(words)
        )
