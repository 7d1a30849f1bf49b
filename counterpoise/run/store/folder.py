"""A run's folder: names of its files, its lock, and logs that can be truncated to a checkpoint."""

from __future__ import annotations

import hashlib
import json
import os
import re
import shlex
import shutil
from collections.abc import Mapping
from contextlib import AbstractContextManager
from pathlib import Path
from typing import Any, TypedDict

from counterpoise.core.secret import SecretKey
from counterpoise.errors import ConfigError, DataError, RunError
from counterpoise.system.atomic import write_atomically
from counterpoise.system.lock import locked

PIECE = 1 << 20  # bytes that are read at once
CONFIG = "config.toml"  # in the folder of a run
SWEEP = "sweep.toml"  # in that of a sweep
ADVICE = "advice.json"  # in that of a race for advice
HELD = {CONFIG: "a run", SWEEP: "a sweep", ADVICE: "advice"}


class Mark(TypedDict):
    """Size and hash of a log, as a checkpoint stores them."""

    size: int
    sha256: str


class ChangedLogError(DataError):
    """A log whose rows differ from those that the run wrote."""


class Log:
    """An append-only log. Its hash is updated per row, so that the cost of a checkpoint does not grow with the run."""

    def __init__(self, path: Path) -> None:
        self.path, self._size, self._hash = path, 0, hashlib.sha256()

    def append(self, line: bytes) -> None:
        with self.path.open("ab") as stream:
            stream.write(line)
        self._size += len(line)
        self._hash.update(line)

    def mark(self) -> Mark:
        with self.path.open("ab") as stream:
            os.fsync(stream.fileno())
        return {"size": self._size, "sha256": self._hash.hexdigest()}

    def check(self, mark: Mark) -> None:
        """Refuse a log that does not begin with the marked content."""
        if (self.path.stat().st_size if self.path.exists() else 0) < mark["size"]:
            raise DataError(f"{self.path} is shorter than when the checkpoint was written")
        if hash_up_to(self.path, mark["size"]).hexdigest() != mark["sha256"]:
            raise ChangedLogError(f"{self.path} has changed since the checkpoint was written")

    def cut(self, mark: Mark | None) -> None:
        """Remove what comes after a checked mark, or everything."""
        self._size = mark["size"] if mark else 0
        if self.path.exists():
            os.truncate(self.path, self._size)
        self._hash = hash_up_to(self.path, self._size) if mark else hashlib.sha256()

    def read(self) -> bytes:
        """All that this run wrote, or an error if the file holds anything else."""
        content = self.path.read_bytes()
        if hashlib.sha256(content).digest() != self._hash.digest():
            raise RunError(f"{self.path} was changed while the run was writing it")
        return content


class RunFolder:
    """Names of the files of a run, and how they are written."""

    def __init__(self, path: Path) -> None:
        self.path = path
        self.config = path / CONFIG
        self.secret = path / "secret.key"
        self.record = path / "record.json"
        self.metrics = path / "metrics.jsonl"
        self.timing = path / "timing.jsonl"
        self.summary = path / "summary.json"
        self.model = path / "model.safetensors"
        self.preprocessing = path / "preprocessing.json"
        self.checkpoints = path / "checkpoints"
        self.partition_picture = path / "partition.png"
        self.curves_picture = path / "curves.png"
        self._logs = {log: Log(log) for log in (self.metrics, self.timing)}

    def holds_run(self) -> bool:
        return _is_there(self.config)

    def has_checkpoint(self) -> bool:
        return any(self.checkpoints.glob("round-*.json"))

    def check_free(self) -> None:
        """Refuse a folder that holds a run, remains of one, a sweep or advice: nothing is overwritten."""
        check_alone(self.path, CONFIG)
        if self.holds_run():
            raise ConfigError(
                f"{self.path} holds a run already; {self.resume_hint()}, or name another folder with --out"
            )
        if left := self._left():
            raise ConfigError(
                f"{self.path} holds {left.relative_to(self.path)} of a run that lost its config.toml; put that back, or name another folder with --out"
            )

    def _left(self) -> Path | None:
        """A file that a run writes only after its config; a killed start leaves none."""
        try:
            files = [path for path in (self.record, self.summary, self.model) if path.exists()]
            files += [log for log in (self.metrics, self.timing) if size_of(log)]
            return next(iter([*files, *sorted(self.checkpoints.glob("round-*.json"))]), None)
        except OSError:  # not a valid folder name
            return None

    def forget(self) -> None:
        """Remove all files of a run that has no checkpoint."""
        shutil.rmtree(self.checkpoints, ignore_errors=True)
        for path in (
            self.config,
            self.secret,
            self.record,
            self.metrics,
            self.timing,
            self.summary,
            self.model,
            self.preprocessing,
        ):
            path.unlink(missing_ok=True)

    def resume_hint(self) -> str:
        """How to continue after a stop, as text for the user."""
        if not self.holds_run():
            return "nothing was written yet: run it again"
        if (self.path / "flower").is_dir():
            return f"continue with the same `counterpoise flower` command and `--resume {shlex.quote(str(self.path))}`"
        return f"continue with `counterpoise resume {shlex.quote(str(self.path))}`"

    def create(self) -> None:
        self.check_free()
        try:
            self.checkpoints.mkdir(parents=True, exist_ok=True)
        except (OSError, ValueError) as error:
            raise ConfigError(
                f"{self.path} cannot be created: {getattr(error, 'strerror', None) or error}"
            ) from None

    def draw_secret(self) -> None:
        """Draw and keep the key of a new run, before its config says that there is a run."""
        write_atomically(self.secret, SecretKey.new().to_bytes(), mode=0o600)

    def read_secret(self) -> SecretKey:
        """The key of the run; with any other it would not go on to the same result."""
        try:
            return SecretKey(self.secret.read_bytes())
        except FileNotFoundError:
            raise DataError(
                f"{self.secret} is missing, and the run's noise is drawn by it; put it back, or start a new run"
            ) from None
        except DataError as error:
            raise DataError(f"{self.secret} is damaged: {error}; put it back, or start a new run") from None

    def locked(self) -> AbstractContextManager[None]:
        """Lock the folder: only one process may write a run."""
        return locked(self.path, f"{self.path} is being written by another process; wait for it to end")

    def write_json(self, path: Path, content: Mapping[str, Any]) -> None:
        write_atomically(path, (json.dumps(content, indent=2) + "\n").encode())

    def append(self, path: Path, row: Mapping[str, Any]) -> None:
        """Add a row to one of the two logs, or to another log, which checkpoints do not cover."""
        self._logs.get(path, Log(path)).append(json.dumps(row).encode() + b"\n")

    def mark_logs(self) -> dict[str, Mark]:
        """Marks of the logs, after fsync: a checkpoint must not outlive the rows it counts."""
        return {path.name: log.mark() for path, log in self._logs.items()}

    def read_log(self, path: Path) -> bytes:
        """All that this run wrote to a log."""
        return self._logs[path].read()

    def check_logs(self, marks: Mapping[str, Mark]) -> None:
        """Refuse logs that changed since a checkpoint was written."""
        for path, log in self._logs.items():
            log.check(marks[path.name])

    def cut_logs(self, marks: Mapping[str, Mark] | None = None) -> None:
        """Remove rows that are newer than a checkpoint, or all; they are written again."""
        for path, log in self._logs.items():
            log.cut(marks[path.name] if marks else None)


def hash_up_to(path: Path, size: int) -> Any:
    """The running SHA-256 of a file's first bytes."""
    total = hashlib.sha256()
    with path.open("rb") as stream:
        while size and (piece := stream.read(min(size, PIECE))):
            total.update(piece)
            size -= len(piece)
    return total


def check_alone(path: Path, own: str) -> None:
    """Refuse a folder that holds something else than the file `own` stands for: pictures and reports have the same names."""
    for name, what in HELD.items():
        if name != own and _is_there(path / name):
            raise ConfigError(
                f"{path} holds {what}, whose pictures or report would be overwritten: {name} is there; name another folder with --out"
            )


def _is_there(path: Path) -> bool:
    try:
        return path.exists()
    except OSError:  # no valid name
        return False


def size_of(path: Path) -> int:
    return path.stat().st_size if path.exists() else 0


def read_rows(path: Path) -> list[dict[str, Any]]:
    """The rows of a log."""
    return parse_rows(path.read_bytes() if path.exists() else b"", path)


def parse_rows(content: bytes, path: Path) -> list[dict[str, Any]]:
    """The rows of a log's content; an incomplete last line (still being written) is ignored."""
    lines = content[: content.rfind(b"\n") + 1].splitlines()
    return [_read_row(f"{path}, row {number}", line) for number, line in enumerate(lines, 1)]


def _read_row(source: str, line: bytes) -> dict[str, Any]:
    try:
        return dict(json.loads(line))
    except (ValueError, TypeError, RecursionError):
        raise DataError(f"{source}: damaged, not a row of this log") from None


def next_folder(base: Path, label: str) -> Path:
    """A new numbered folder, such as ``runs/003-fedcm-digits``."""
    known = [re.match(r"(\d+)-", path.name) for path in base.glob("*-*")] if base.is_dir() else []
    number = max((int(match[1]) for match in known if match), default=0) + 1
    return base / f"{number:03d}-{re.sub(r'[^A-Za-z0-9+_.-]', '-', label)[:100]}"
