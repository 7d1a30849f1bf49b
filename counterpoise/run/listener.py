"""Callbacks of a run: pictures, a progress bar, a log of traffic. A run itself draws and prints nothing."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

from counterpoise.errors import one_line
from counterpoise.run.giving_up import Rows
from counterpoise.run.store.stored import Run


class Listener:
    """Is told when a run begins, after each round, and when it ends; each method does nothing by default."""

    def began(self, run: Run) -> None:
        """The run starts, or is resumed."""

    def round_ended(self, row: Mapping[str, Any], rounds: int) -> None:
        """A row of metrics was written; `rounds` is the total."""

    def ended(self, run: Run, rows: Rows) -> None:
        """The run has a result; its summary is written next."""


class DataNotes(Listener):
    """Says how the data of a run was prepared: an imbalance may be less than was asked for."""

    def __init__(self, say: Callable[[str], None]) -> None:
        self._say = say

    def began(self, run: Run) -> None:
        for note in run.simulation.work.federation.notes:
            self._say(f"note: {one_line(note)}")
