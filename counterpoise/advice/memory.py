"""What a stopped race needs to go on: its plan and the time spent, beside the folders of its runs."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

from counterpoise.advice.plan import Rung
from counterpoise.errors import ConfigError, DataError
from counterpoise.run.store.seal import read_object
from counterpoise.system.atomic import write_atomically


class Memory:
    """The file advice.json: another goal starts with a new plan, more minutes with new finals; both reuse runs.

    Fewer minutes keep the plan: what has run is there, whatever the time.
    """

    def __init__(self, path: Path, goal: str, minutes: float, data: str) -> None:
        """`data`: SHA-256 of samples and clients; what ran on others tells nothing of these."""
        self._path = path
        known = _read(path)
        if known.get("data", data) != data:
            raise ConfigError(f"{path.parent} holds advice on other data; name another folder with --out")
        if known.get("goal") != goal:
            known = {}
        planned = known.get("minutes", 0.0)
        if minutes > planned:
            known = {key: value for key, value in known.items() if key not in _outgrown(known)}
        self._kept = known | {"goal": goal, "minutes": max(minutes, planned), "data": data}

    @property
    def spent(self) -> float:
        return float(self._kept.get("spent", 0.0))

    @property
    def planned(self) -> bool:
        return "rates" in self._kept

    @property
    def rates(self) -> int:
        return int(self._kept["rates"])

    @property
    def candidates(self) -> int:
        return int(self._kept["candidates"])

    @property
    def rungs(self) -> list[Rung]:
        return [Rung(*rung) for rung in self._kept.get("rungs", ())]

    @property
    def finals(self) -> Rung | None:
        known = self._kept.get("finals")
        return None if known is None else Rung(*known)

    @property
    def reached(self) -> tuple[list[str], Rung] | None:
        """The finals that told most: names of their trials, and how far these ran."""
        known = self._kept.get("reached")
        return None if known is None else (known[0], Rung(*known[1]))

    def keep(self, **values: Any) -> None:
        """Remember values, at once and whole."""
        self._kept |= values
        write_atomically(self._path, (json.dumps(self._kept, indent=2) + "\n").encode())


def _outgrown(known: dict[str, Any]) -> tuple[str, ...]:
    """What more minutes plan anew; before the first rung also which candidates race, which little time had cut."""
    return ("finals",) if known.get("rungs") else ("finals", "rates", "candidates")


def _read(path: Path) -> dict[str, Any]:
    try:
        return read_object(path) or {}
    except DataError as error:
        raise DataError(f"{error}; remove it to start again") from None
