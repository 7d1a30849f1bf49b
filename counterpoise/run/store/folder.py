"""A run's folder: what is in it, who may write it, and logs that can be cut back to a checkpoint."""

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

from counterpoise.errors import ConfigError, DataError, RunError
from counterpoise.system.atomic import write_atomically
from counterpoise.system.lock import locked

PIECE = 1 << 20  # bytes that are read at once


class Mark(TypedDict):
    """A log up to a place, as a checkpoint keeps it."""

    size: int
    sha256: str


class ChangedLogError(DataError):
    """A log whose rows are not those that the run wrote."""


class Log:
    """One log. The hash grows with the rows, so that a checkpoint of a long run costs no more than one of a short run."""

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
        """Refuse a log that does not begin with what was marked."""
        if (self.path.stat().st_size if self.path.exists() else 0) < mark["size"]:
            raise DataError(f"{self.path} is shorter than when the checkpoint was written")
        if hash_up_to(self.path, mark["size"]).hexdigest() != mark["sha256"]:
            raise ChangedLogError(f"{self.path} is not what it was when the checkpoint was written")

    def cut(self, mark: Mark | None) -> None:
        """Forget what comes after a mark that was checked, or all."""
        self._size = mark["size"] if mark else 0
        if self.path.exists():
            os.truncate(self.path, self._size)
        self._hash = hash_up_to(self.path, self._size) if mark else hashlib.sha256()

    def read(self) -> bytes:
        """All that was written, or an error where the file holds anything else."""
        content = self.path.read_bytes()
        if hashlib.sha256(content).digest() != self._hash.digest():
            raise RunError(f"{self.path} was changed while the run was at work")
        return content


class RunFolder:
    """Names of the files of a run, and the few ways they are written."""

    def __init__(self, path: Path) -> None:
        self.path = path
        self.config = path / "config.toml"
        self.record = path / "record.json"
        self.metrics = path / "metrics.jsonl"
        self.timing = path / "timing.jsonl"
        self.summary = path / "summary.json"
        self.model = path / "model.safetensors"
        self.checkpoints = path / "checkpoints"
        self.partition_picture = path / "partition.png"
        self.curves_picture = path / "curves.png"
        self._logs = {log: Log(log) for log in (self.metrics, self.timing)}

    def holds_run(self) -> bool:
        try:
            return self.config.exists()
        except OSError:  # a name that no folder can have
            return False

    def has_checkpoint(self) -> bool:
        return any(self.checkpoints.glob("round-*.json"))

    def check_free(self) -> None:
        """A folder that holds a run already, or what is left of one, is never written over."""
        if self.holds_run():
            raise ConfigError(
                f"{self.path} holds a run already; {self.resume_hint()}, or name another folder with --out"
            )
        if left := self._left():
            raise ConfigError(
                f"{self.path} holds {left.relative_to(self.path)} of a run that lost its config.toml; put that back, or name another folder with --out"
            )

    def _left(self) -> Path | None:
        """A file that a run writes only after its config; a start that was killed leaves none."""
        try:
            files = [path for path in (self.record, self.summary, self.model) if path.exists()]
            files += [log for log in (self.metrics, self.timing) if size_of(log)]
            return next(iter([*files, *sorted(self.checkpoints.glob("round-*.json"))]), None)
        except OSError:  # a name that no folder can have
            return None

    def forget(self) -> None:
        """Remove all that a run wrote which has no round to go on from."""
        shutil.rmtree(self.checkpoints, ignore_errors=True)
        for path in (self.config, self.record, self.metrics, self.timing, self.summary, self.model):
            path.unlink(missing_ok=True)

    def resume_hint(self) -> str:
        """What to do after a stop, in words."""
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
                f"{self.path} cannot be made: {getattr(error, 'strerror', None) or error}"
            ) from None

    def locked(self) -> AbstractContextManager[None]:
        """Only one process writes a run."""
        return locked(self.path, f"{self.path} is being written by another process; wait for it to end")

    def write_json(self, path: Path, content: Mapping[str, Any]) -> None:
        write_atomically(path, (json.dumps(content, indent=2) + "\n").encode())

    def append(self, path: Path, row: Mapping[str, Any]) -> None:
        """Add a row to one of the two logs, or to a log of somebody else's, which no checkpoint knows."""
        self._logs.get(path, Log(path)).append(json.dumps(row).encode() + b"\n")

    def mark_logs(self) -> dict[str, Mark]:
        """What the logs are so far, made durable: a checkpoint must not outlive the rows it counts."""
        return {path.name: log.mark() for path, log in self._logs.items()}

    def read_log(self, path: Path) -> bytes:
        """All that this run wrote to a log."""
        return self._logs[path].read()

    def check_logs(self, marks: Mapping[str, Mark]) -> None:
        """Refuse logs that do not begin as they were when a checkpoint was written."""
        for path, log in self._logs.items():
            log.check(marks[path.name])

    def cut_logs(self, marks: Mapping[str, Mark] | None = None) -> None:
        """Forget rows that are newer than a checkpoint, or all; rounds to come write them again."""
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


def size_of(path: Path) -> int:
    return path.stat().st_size if path.exists() else 0


def read_rows(path: Path) -> list[dict[str, Any]]:
    """The rows of a log."""
    return parse_rows(path.read_bytes() if path.exists() else b"", path)


def parse_rows(content: bytes, path: Path) -> list[dict[str, Any]]:
    """The rows of a log's content; one whose end is not there yet, as of a run at work, is none."""
    lines = content[: content.rfind(b"\n") + 1].splitlines()
    return [_read_row(f"{path}, row {number}", line) for number, line in enumerate(lines, 1)]


def _read_row(source: str, line: bytes) -> dict[str, Any]:
    try:
        return dict(json.loads(line))
    except (ValueError, TypeError, RecursionError):
        raise DataError(f"{source}: damaged, not a row of this log") from None


def next_folder(base: Path, label: str) -> Path:
    """A numbered folder that is not there yet, such as ``runs/003-fedcm-digits``."""
    known = [re.match(r"(\d+)-", path.name) for path in base.glob("*-*")] if base.is_dir() else []
    number = max((int(match[1]) for match in known if match), default=0) + 1
    return base / f"{number:03d}-{re.sub(r'[^A-Za-z0-9+_.-]', '-', label)[:100]}"
