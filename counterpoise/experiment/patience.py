"""When a run is given up: rounds in a row in which no reply could be used."""

from __future__ import annotations

import itertools
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from counterpoise.errors import RunError
from counterpoise.replies import DIVERGED
from counterpoise.rounds import Outcome


class Patience:
    """Ends a run after too many rounds in a row in which no reply could be used."""

    def __init__(self, most: int) -> None:
        self._most, self._skipped = most, 0

    def see(self, outcome: Outcome) -> None:
        self._skipped = self._skipped + 1 if outcome.skipped else 0
        if self._skipped == self._most:
            raise RunError(_why_skipped(self._skipped, outcome))


def why_given_up(rows: Sequence[Mapping[str, Any]], most: int, rounds: int) -> str | None:
    """Why a run with these rows has no result, even if it was taken to its end later; None: it has, or may have one.

    Rounds without a reply are an outage, which passes. Replies that cannot be used are what the method does.
    """
    stretches = itertools.groupby(rows, lambda row: row.get("skipped") and bool(row["rejected"]))
    longest = max((len(list(stretch)) for skipped, stretch in stretches if skipped), default=0)
    if longest >= most:
        reasons = (rejection["reason"] for row in rows for rejection in row["rejected"])
        return f"{longest} rounds in a row were skipped{_explain(reasons)}"
    if len(rows) >= rounds and all(row.get("skipped") for row in rows):
        return f"all {len(rows)} rounds were skipped"
    return None


def _why_skipped(skipped: int, outcome: Outcome) -> str:
    why = _explain(rejection.reason for rejection in outcome.rejected)
    return f"{skipped} rounds in a row were skipped: of {outcome.asked} clients asked {outcome.replied} replied{why}"


def _explain(reasons: Iterable[str]) -> str:
    known = sorted(set(reasons))
    diverged = any(reason.startswith(DIVERGED) for reason in known)
    advice = "; training diverges: lower local.lr or set local.clip" if diverged else ""
    return f", and no reply could be used ({known[0]}){advice}" if known else ""
