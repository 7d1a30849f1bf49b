"""Early stopping: a run ends when its validation score has not improved for some evaluations."""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping
from typing import Any

from counterpoise.core.rounds import counted


class EarlyStopping:
    """Counts evaluations without a better validation score; the rows of a run alone decide, so that it can be resumed."""

    def __init__(self, patience: int | None, rows: Iterable[Mapping[str, Any]] = ()) -> None:
        self._patience, self._since = patience, 0
        self._best, self._best_round, self._last_round = -math.inf, 0, 0
        for row in rows:
            self.see(row)

    def see(self, row: Mapping[str, Any]) -> None:
        """Count a round; one that was skipped or not evaluated says nothing."""
        score = validation_score(row)
        if score is None or row.get("skipped"):
            return
        self._last_round, self._since = counted(row["round"]), self._since + 1
        if score > self._best:
            self._best, self._best_round, self._since = score, self._last_round, 0

    @property
    def over(self) -> bool:
        return self._patience is not None and self._since >= self._patience

    def words(self, rounds: int) -> str:
        """Why the run ended before its last round; empty if it did not."""
        if not self.over or self._last_round >= rounds:
            return ""
        return f"stopped after round {self._last_round} of {rounds}: balanced accuracy on validation samples was best in round {self._best_round}, {self._best:.1%}, and not better in {self._since} evaluations since"


def validation_score(row: Mapping[str, Any]) -> float | None:
    """Balanced accuracy on the server's validation samples, else the clients' mean on what they hold out."""
    if "validation" in row:
        score: float | None = row["validation"].get("balanced_accuracy")
        return score
    return row["clients"]["mean_client_balanced_accuracy"] if "clients" in row else None
