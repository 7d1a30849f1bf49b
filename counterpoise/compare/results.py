"""Finished and unfinished runs, read back from their folders: all that tables and reports are made of."""

from __future__ import annotations

import json
import logging
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Any, NamedTuple

from counterpoise.core.method import build_method
from counterpoise.errors import ConfigError, CounterpoiseError, DataError
from counterpoise.experiment.folder import RunFolder, read_rows
from counterpoise.experiment.patience import why_given_up
from counterpoise.experiment.tables import EngineTable
from counterpoise.experiment.toml import read_toml

LOG = logging.getLogger(__name__)
FAILURE = "failure.json"  # what a sweep leaves in the folder of a run that ended in an error
TUNING = "tuning"  # folder of a sweep whose runs were scored on validation samples
MAX_SKIPPED = EngineTable().max_skipped  # of runs whose config does not say
HOW = ("engine", "checkpoint", "flower", "track")  # tables that say how a run is executed, not what it is


class RunResult(NamedTuple):
    """One run's folder. Rows hold one entry a round; only rounds that were evaluated have scores."""

    path: Path
    config: dict[str, Any]  # the tables of config.toml
    record: dict[str, Any]  # versions, machine, data, clients by classes, charts; empty before the run began
    rows: list[dict[str, Any]]
    seconds: list[float]  # of each round
    summary: dict[str, Any] | None  # None: not finished
    failure: str | None  # one line; None: it did not fail

    @property
    def method(self) -> str:
        """The method as a word: names joined by +, without arguments."""
        return build_method(self.config["method"]).name

    @property
    def seed(self) -> int:
        return int(self.config["seed"])

    @property
    def scored(self) -> list[dict[str, Any]]:
        """Rows of the rounds that were evaluated."""
        return [row for row in self.rows if "accuracy" in row]

    @property
    def given_up(self) -> str | None:
        """Why a run that may have come to its end has no result all the same."""
        most = self.config["engine"].get("max_skipped", MAX_SKIPPED)
        return why_given_up(self.rows, most, self.config["rounds"])

    @property
    def has_result(self) -> bool:
        return self.summary is not None and self.given_up is None

    @property
    def problem(self) -> str:
        """What a run works on, whatever the method: runs that share it may be compared seed by seed."""
        kept = {key: value for key, value in self.config.items() if key not in (*HOW, "method", "seed")}
        return json.dumps(kept, sort_keys=True)


def find_runs(paths: Iterable[Path]) -> list[Path]:
    """Folders at or below these paths that hold a run, in order of their names; not what a sweep only tuned with."""
    found = [folder for path in paths for folder in _below(path)]
    return list(dict.fromkeys(found))


def read_results(paths: Iterable[Path]) -> list[RunResult]:
    """Every run at or below these paths; one that cannot be read is left out with a warning, unless it is the only one."""
    given, results, errors = list(paths), [], []
    for path in find_runs(given):
        try:
            results.append(_readable(path))
        except CounterpoiseError as error:
            errors.append(error)
    if errors and not results:
        raise errors[0]
    if not results:
        raise ConfigError(f"no run in {', '.join(map(str, given))}: no folder there has a config.toml")
    for unread in errors:
        LOG.warning("left out: %s", unread)
    return results


def _readable(path: Path) -> RunResult:
    result = read_result(path)
    try:
        build_method(result.config["method"])
    except ConfigError as error:
        raise ConfigError(f"{path}: {error}") from None
    return result


def read_result(path: Path) -> RunResult:
    """One run, as far as it got."""
    folder = RunFolder(path)
    failed = _read_json(path / FAILURE)
    return RunResult(
        path,
        read_toml(folder.config),
        _read_json(folder.record),
        read_rows(folder.metrics),
        [float(row["seconds"]) for row in read_rows(folder.timing)],
        _read_json(folder.summary) or None,
        failed.get("error"),
    )


def _below(path: Path) -> Iterator[Path]:
    if not path.is_dir():
        raise ConfigError(f"{path} is not a folder; legal: folders of runs, or folders that hold some")
    found = (config.parent for config in path.rglob("config.toml") if _holds_run(config.parent))
    yield from sorted(run for run in found if TUNING not in run.relative_to(path).parts)


def _holds_run(path: Path) -> bool:
    return RunFolder(path).checkpoints.is_dir() or (path / FAILURE).exists()


def _read_json(path: Path) -> dict[str, Any]:
    try:
        return dict(json.loads(path.read_bytes())) if path.exists() else {}
    except (ValueError, TypeError, RecursionError):
        raise DataError(f"{path} is damaged: it is not JSON") from None
