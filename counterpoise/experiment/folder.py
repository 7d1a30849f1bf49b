"""A run's folder: what is in it, who may write it, and logs that can be cut back to a checkpoint."""

from __future__ import annotations

import fcntl
import json
import os
import re
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from counterpoise.errors import ConfigError, DataError
from counterpoise.experiment.atomic import write_atomically


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

    def create(self) -> None:
        """A new folder; one that holds a run already is never written over."""
        if self.config.exists():
            raise ConfigError(
                f"{self.path} holds a run already; continue it with `counterpoise resume {self.path}`, or name another folder with --out"
            )
        try:
            self.checkpoints.mkdir(parents=True, exist_ok=True)
        except OSError as error:
            raise ConfigError(f"{self.path} cannot be made: {error.strerror}") from None

    @contextmanager
    def locked(self) -> Iterator[None]:
        """Only one process writes a run."""
        with (self.path / ".lock").open("w") as handle:
            try:
                fcntl.flock(handle, fcntl.LOCK_EX | fcntl.LOCK_NB)
            except OSError:
                raise ConfigError(
                    f"{self.path} is being written by another process; wait for it to end"
                ) from None
            yield

    def write_json(self, path: Path, content: Mapping[str, Any]) -> None:
        write_atomically(path, (json.dumps(content, indent=2) + "\n").encode())

    def append(self, path: Path, row: Mapping[str, Any]) -> None:
        with path.open("a") as stream:
            stream.write(json.dumps(row) + "\n")

    def log_sizes(self) -> dict[str, int]:
        return {path.name: size_of(path) for path in (self.metrics, self.timing)}

    def cut_logs(self, sizes: Mapping[str, int]) -> None:
        """Forget rows that are newer than a checkpoint; rounds to come write them again."""
        for path in (self.metrics, self.timing):
            if size_of(path) < sizes[path.name]:
                raise DataError(f"{path} is shorter than when the checkpoint was written")
            if path.exists():
                os.truncate(path, sizes[path.name])


def size_of(path: Path) -> int:
    return path.stat().st_size if path.exists() else 0


def read_rows(path: Path) -> list[dict[str, Any]]:
    """The rows of a log."""
    return [json.loads(line) for line in path.read_text().splitlines()] if path.exists() else []


def next_folder(base: Path, label: str) -> Path:
    """A numbered folder that is not there yet, such as ``runs/003-fedcm-digits``."""
    known = [re.match(r"(\d+)-", path.name) for path in base.glob("*-*")] if base.is_dir() else []
    number = max((int(match[1]) for match in known if match), default=0) + 1
    return base / f"{number:03d}-{re.sub(r'[^A-Za-z0-9+_.-]', '-', label)}"
