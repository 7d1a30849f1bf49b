"""How runs stand, read while they may still be written."""

from __future__ import annotations

import json
import os
from collections.abc import Mapping
from pathlib import Path
from typing import Any, Literal, NamedTuple

from counterpoise.compare.labels import show
from counterpoise.compare.results import FAILURE, RunResult
from counterpoise.errors import CounterpoiseError, DataError
from counterpoise.experiment.folder import RunFolder
from counterpoise.experiment.toml import read_toml

LOCKS = Path("/proc/locks")
RECENT = 10  # rounds that the pace is taken from

State = Literal["running", "failed", "stopped", "unreadable", "done"]


class Progress(NamedTuple):
    """A run as it stands; one that cannot be read has no result."""

    path: Path
    state: State
    changed: float  # when it last wrote, in seconds since 1970
    result: RunResult | None = None
    trouble: str | None = None  # why it failed or cannot be read

    @property
    def round(self) -> int:
        return len(self.result.rows) if self.result else 0

    @property
    def rounds(self) -> int:
        return int(self.result.config["rounds"]) if self.result else 0

    @property
    def words(self) -> str:
        plain = self.state in ("done", "unreadable")
        return self.state if plain else f"{self.state}, round {self.round} of {self.rounds}"

    @property
    def pace(self) -> float | None:
        """Rounds a second, lately."""
        recent = self.result.seconds[-RECENT:] if self.result else []
        return len(recent) / sum(recent) if sum(recent) > 0 else None

    @property
    def left(self) -> float | None:
        """Seconds to the end at this pace."""
        return None if self.pace is None else (self.rounds - self.round) / self.pace

    def last(self, key: str) -> float | None:
        """The newest value of a column of the rows."""
        rows = self.result.rows if self.result else []
        return next((row[key] for row in reversed(rows) if row.get(key) is not None), None)

    def curve(self, key: str) -> list[float]:
        rows = self.result.rows if self.result else []
        return [row[key] for row in rows if row.get(key) is not None]


def read_progress(path: Path) -> Progress:
    """How a run stands; a folder that cannot be read is one that says so."""
    try:
        result = read_unfinished(path)
        _ = result.method, result.seed, result.config["rounds"], problem_words(result.config)
    except (CounterpoiseError, OSError, KeyError, TypeError, ValueError) as error:
        words = f"no {error} in its config" if isinstance(error, KeyError) else str(error)
        return Progress(path, "unreadable", last_change(path), trouble=words)
    return Progress(path, _state(result), last_change(path), result, result.failure)


def read_unfinished(path: Path) -> RunResult:
    """A run as far as it got; a row whose end is not there yet is none."""
    folder = RunFolder(path)
    return RunResult(
        path,
        read_toml(folder.config),
        _read_json(folder.record),
        whole_rows(folder.metrics),
        [float(row["seconds"]) for row in whole_rows(folder.timing)],
        _read_json(folder.summary) or None,
        _read_json(path / FAILURE).get("error"),
    )


def whole_rows(path: Path) -> list[dict[str, Any]]:
    """The rows of a log that may be being written."""
    content = path.read_bytes() if path.exists() else b""
    try:
        return [dict(json.loads(line)) for line in content[: content.rfind(b"\n") + 1].splitlines()]
    except (ValueError, TypeError, RecursionError):
        raise DataError(f"{path} is damaged: not a log of rows") from None


def is_locked(path: Path) -> bool:
    """Whether a process is at work in a run's folder; seen without touching the lock, which would be in its way."""
    lock = path / ".lock"
    if not lock.exists() or not LOCKS.exists():
        return False
    number = os.stat(lock).st_ino
    fields = [line.split() for line in LOCKS.read_text().splitlines()]
    return any(line[1] == "FLOCK" and line[-3].endswith(f":{number}") for line in fields)


def last_change(path: Path) -> float:
    """When a run last wrote one of its files."""
    folder = RunFolder(path)
    files = (folder.config, folder.metrics, folder.summary, path / FAILURE)
    return max((file.stat().st_mtime for file in files if file.exists()), default=0.0)


def problem_words(config: Mapping[str, Any]) -> str:
    """What a run works on, such as ``digits, imbalance 20, dirichlet(alpha=0.3), 20 clients``."""
    data, partition = config["data"], dict(config["partition"])
    name, clients = partition.pop("name"), partition.pop("clients")
    arguments = {key: value for key, value in partition.items() if key not in ("validation", "seed")}
    imbalance = [] if data["imbalance"] == 1 else [f"imbalance {show(data['imbalance'])}"]
    return ", ".join([data["name"], *imbalance, show({name: arguments}), f"{clients} clients"])


def _state(result: RunResult) -> State:
    if result.summary is not None:
        return "done"
    if is_locked(result.path):
        return "running"
    return "stopped" if result.failure is None else "failed"


def _read_json(path: Path) -> dict[str, Any]:
    try:
        return dict(json.loads(path.read_bytes())) if path.exists() else {}
    except (ValueError, TypeError, RecursionError):
        raise DataError(f"{path} is damaged: it is not JSON") from None
