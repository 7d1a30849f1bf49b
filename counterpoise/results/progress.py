"""Progress of runs, read while they may still be written."""

from __future__ import annotations

import os
from collections.abc import Mapping
from pathlib import Path
from typing import Any, Literal, NamedTuple

from counterpoise.errors import CounterpoiseError
from counterpoise.results.labels import show
from counterpoise.results.results import FAILURE, RunResult, read_result
from counterpoise.run.store.folder import SWEEP, RunFolder

LOCKS = Path("/proc/locks")
RUNS = "runs"  # folder of a sweep that holds its runs
RECENT = 10  # rounds that the pace is measured over

State = Literal["running", "failed", "stopped", "unreadable", "done"]


class Progress(NamedTuple):
    """State of a run; one that cannot be read has no result."""

    path: Path
    state: State
    changed: float  # time of its last write, in seconds since 1970
    result: RunResult | None = None
    trouble: str | None = None  # why it failed or cannot be read

    @property
    def round(self) -> int:
        return len(self.result.rows) if self.result else 0

    @property
    def rounds(self) -> int:
        return int(self.result.config["rounds"]) if self.result else 0

    @property
    def method(self) -> str:
        return self.result.method if self.result else ""

    @property
    def seed(self) -> int:
        return self.result.seed if self.result else -1

    @property
    def data(self) -> str:
        """Name of the data set, or of the user's file."""
        return data_words(self.result.config) if self.result else ""

    @property
    def problem(self) -> str:
        """What the run works on, with the name of the user's file."""
        return problem_words(self.result.config, self.data) if self.result else ""

    @property
    def file(self) -> str:
        """Name of the experiment's file, where it is known."""
        return str(self.result.record.get("file", "")) if self.result else ""

    @property
    def sweep(self) -> Path | None:
        """The folder of the sweep that the run belongs to."""
        above = self.path.parent.parent
        return above if self.path.parent.name == RUNS and (above / SWEEP).exists() else None

    @property
    def words(self) -> str:
        plain = self.state in ("done", "unreadable")
        return self.state if plain else f"{self.state}, round {self.round} of {self.rounds}"

    @property
    def pace(self) -> float | None:
        """Rounds per second over the last rounds."""
        recent = self.result.seconds[-RECENT:] if self.result else []
        return len(recent) / sum(recent) if sum(recent) > 0 else None

    @property
    def left(self) -> float | None:
        """Seconds left at this pace."""
        return None if self.pace is None else (self.rounds - self.round) / self.pace

    def last(self, key: str) -> float | None:
        """The newest value of a column."""
        rows = self.result.rows if self.result else []
        return next((row[key] for row in reversed(rows) if row.get(key) is not None), None)

    def curve(self, key: str) -> list[float]:
        rows = self.result.rows if self.result else []
        return [row[key] for row in rows if row.get(key) is not None]


def read_progress(path: Path) -> Progress:
    """Progress of a run; "unreadable" with the reason if its folder cannot be read."""
    try:
        result = read_result(path)
        _ = result.method
    except CounterpoiseError as error:
        return Progress(path, "unreadable", last_change(path), trouble=str(error))
    failure = None if result.has_result else result.given_up or result.failure
    return Progress(path, _state(result), last_change(path), result, failure)


def is_locked(path: Path) -> bool:
    """Whether a process holds the lock of a run's folder; read from the system, without taking the lock."""
    lock = path / ".lock"
    if not lock.exists() or not LOCKS.exists():
        return False
    number = os.stat(lock).st_ino
    fields = [line.split() for line in LOCKS.read_text().splitlines()]
    return any(line[1] == "FLOCK" and line[-3].endswith(f":{number}") for line in fields)


def last_change(path: Path) -> float:
    """Time of the last write to a file of the run."""
    folder = RunFolder(path)
    files = (folder.config, folder.metrics, folder.summary, path / FAILURE)
    return max((file.stat().st_mtime for file in files if file.exists()), default=0.0)


def data_words(config: Mapping[str, Any]) -> str:
    """Name of the data set, or of the file for the user's own data."""
    data = config["data"]
    return Path(str(data.get("path") or "")).name or str(data["name"])


def problem_words(config: Mapping[str, Any], named: str | None = None) -> str:
    """What a run works on, such as ``digits, imbalance 20, dirichlet(alpha=0.3), 20 clients``; `named` replaces the name of the data."""
    data, partition = config["data"], dict(config["partition"])
    name, clients = partition.pop("name"), partition.pop("clients")
    arguments = {key: value for key, value in partition.items() if key not in ("validation", "seed")}
    imbalance = [] if data["imbalance"] == 1 else [f"imbalance {show(data['imbalance'])}"]
    return ", ".join([named or data["name"], *imbalance, show({name: arguments}), f"{clients} clients"])


def _state(result: RunResult) -> State:
    if result.has_result:
        return "done"
    if is_locked(result.path):
        return "running"
    return "failed" if result.failure or result.given_up else "stopped"
