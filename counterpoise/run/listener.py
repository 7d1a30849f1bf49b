"""What others may hear of a run: pictures, a progress bar, a log of traffic. A run itself draws and prints nothing."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from counterpoise.run.patience import Rows
from counterpoise.run.store.run import Run


class Listener:
    """Hears of a run in its folder; what a listener does not define does nothing."""

    def began(self, run: Run) -> None:
        """The run starts, or goes on."""

    def round_ended(self, row: Mapping[str, Any], rounds: int) -> None:
        """A row of metrics was written, of so many rounds."""

    def ended(self, run: Run, rows: Rows) -> None:
        """The run has a result; its summary is written next."""
