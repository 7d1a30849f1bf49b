"""Callbacks of a run: pictures, a progress bar, a log of traffic. A run itself draws and prints nothing."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

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
