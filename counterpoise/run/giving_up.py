"""When a run is given up: rounds in a row in which no reply could be used."""

from __future__ import annotations

import itertools
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from counterpoise.errors import RunError
from counterpoise.server.replies import DIVERGED
from counterpoise.server.state import Outcome

Rows = Sequence[Mapping[str, Any]]


class GivenUpError(RunError):
    """A run that reached its last round without a result, and would do so again."""


class SkippedRounds:
    """Counts rounds in a row in which no reply could be used, across resumes."""

    def __init__(self, most: int, rows: Rows = ()) -> None:
        self._most, self._skipped = most, skipped_at_end(rows)
        self._lost = ""

    def count(self, outcome: Outcome) -> str:
        """Why the run stops, once there were too many, else ""; a run that is resumed then tries one more round."""
        self._skipped = self._skipped + 1 if outcome.skipped else 0
        if self._skipped >= self._most:
            self._lost = self._lost or _why_skipped(self._skipped, outcome)
        return self._lost


def why_given_up(rows: Rows, most: int, rounds: int) -> str | None:
    """Why a run with these rows has no result, even if later rounds went well; None: it has one, or may get one.

    Rounds without any reply are an outage, which counts only at the end of the run. Replies that cannot be used mean that
    the method diverged.
    """
    stretches = itertools.groupby(rows, lambda row: row.get("skipped") and bool(row["rejected"]))
    longest = max((len(list(stretch)) for skipped, stretch in stretches if skipped), default=0)
    last = skipped_at_end(rows) if len(rows) >= rounds else 0
    if not last and longest < most:
        return None
    why = _explain(rejection["reason"] for row in rows for rejection in row["rejected"])
    return f"{_which(last, len(rows)) if last else f'{longest} rounds in a row were'} skipped{why}"


def _which(last: int, rounds: int) -> str:
    if last == rounds:
        return f"all {last} rounds were"
    return "its last round was" if last == 1 else f"its last {last} rounds were"


def skipped_at_end(rows: Rows) -> int:
    """Number of skipped rounds at the end."""
    return len([*itertools.takewhile(lambda row: row.get("skipped"), reversed(rows))])


def _why_skipped(skipped: int, outcome: Outcome) -> str:
    why = _explain(rejection.reason for rejection in outcome.rejected)
    return f"{skipped} rounds in a row were skipped: of {outcome.asked} clients asked {outcome.replied} replied{why}"


def _explain(reasons: Iterable[str]) -> str:
    known = sorted(set(reasons))
    diverged = any(reason.startswith(DIVERGED) for reason in known)
    advice = "; training diverges: lower local.lr or set local.clip" if diverged else ""
    return f", and no reply could be used ({known[0]}){advice}" if known else ""
