"""Finished and unfinished runs, read from their folders, for tables and reports."""

from __future__ import annotations

import hashlib
import json
import logging
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any, NamedTuple

from counterpoise.core.method import build_method
from counterpoise.core.rounds import counted
from counterpoise.errors import ConfigError, CounterpoiseError, DataError
from counterpoise.run.config.experiment import binding, make_experiment
from counterpoise.run.giving_up import why_given_up
from counterpoise.run.store.folder import CONFIG, RunFolder, parse_rows
from counterpoise.run.store.rows import check_rounds, check_times
from counterpoise.run.store.seal import SEAL, check_files, digest_of, read_object, read_sealed
from counterpoise.system.toml import read_toml

LOG = logging.getLogger(__name__)
FAILURE = "failure.json"  # written by a sweep into the folder of a run that failed
TUNING = "tuning"  # folder of a sweep whose runs were scored on validation samples
HOW = ("engine", "checkpoint", "flower", "track")  # tables that say how a run is executed, not what it is


class RunResult(NamedTuple):
    """The content of a run's folder. One row per round; only evaluated rounds have scores."""

    path: Path
    config: dict[str, Any]  # the tables of config.toml, with every key: what it lacks has its default
    record: dict[str, Any]  # versions, machine, data, clients, charts; empty before the run began
    rows: list[dict[str, Any]]
    seconds: list[float]  # of each round
    summary: dict[str, Any] | None  # None: not finished
    failure: str | None  # one line; None: no failure

    @property
    def method(self) -> str:
        """Name of the method: names joined by +, without arguments."""
        return build_method(self.config["method"]).name

    @property
    def pools(self) -> bool:
        """Whether the samples of all clients lay in one place."""
        return build_method(self.config["method"]).pools is not None

    @property
    def seed(self) -> int:
        return int(self.config["seed"])

    @property
    def samples(self) -> list[int]:
        """Training samples of each client."""
        return samples_of(self.record)

    @property
    def client_names(self) -> list[str]:
        """Names of the clients, or their numbers where they have none."""
        return names_of(self.record["data"].get("client_names", ()), len(self.samples))

    @property
    def client_counts(self) -> list[list[int]] | None:
        """Samples of each client and class; None where the server did not ask for them."""
        counts: list[list[int]] | None = self.record["clients"]
        return counts

    @property
    def class_counts(self) -> list[int] | None:
        """Samples of each class over all clients; None where the server did not ask for them."""
        counts: list[int] | None = self.record["data"]["class_counts"]
        return counts

    @property
    def scored(self) -> list[dict[str, Any]]:
        """Rows of the rounds that were evaluated."""
        return [row for row in self.rows if "accuracy" in row]

    @property
    def given_up(self) -> str | None:
        """Why a run has no result even if it reached its last round."""
        return why_given_up(self.rows, self.config["engine"]["max_skipped"], self.config["rounds"])

    @property
    def has_result(self) -> bool:
        return self.summary is not None and self.given_up is None

    @property
    def problem(self) -> str:
        """The config without method, seed and execution: runs that share it may be compared seed by seed."""
        kept = {key: value for key, value in self.config.items() if key not in (*HOW, "method", "seed")}
        return json.dumps(kept, sort_keys=True)


def by_round(
    rows: Iterable[Mapping[str, Any]], read: Callable[[Mapping[str, Any]], Any]
) -> list[tuple[int, Any]]:
    """Rounds, counted from 1, and what is read from their rows; without those where nothing is found."""
    return [(counted(row["round"]), value) for row in rows if (value := read(row)) is not None]


def names_of(names: Sequence[str], clients: int) -> list[str]:
    """The names of so many clients, or their numbers where they have none."""
    return list(names) if len(names) == clients else [str(k) for k in range(clients)]


def samples_of(record: Mapping[str, Any]) -> list[int]:
    """Training samples of each client; records of older versions have only those of each class."""
    return list(map(sum, record["clients"])) if record.get("clients") else list(record.get("samples", ()))


def find_runs(paths: Iterable[Path]) -> list[Path]:
    """Folders of runs at or below these paths, sorted by name, without the tuning runs of sweeps."""
    found = [folder for path in paths for folder in _below(path)]
    return list(dict.fromkeys(found))


class Readings(NamedTuple):
    """Runs that could be read, and for the others the reason."""

    results: list[RunResult]
    left_out: dict[Path, CounterpoiseError]


def read_results(paths: Iterable[Path]) -> list[RunResult]:
    """Every run at or below these paths that can be read."""
    return read_folders(paths).results


def read_folders(paths: Iterable[Path]) -> Readings:
    """Every run at or below these paths; unreadable ones are left out with a warning, unless there are no others."""
    given = list(paths)
    found = read_runs(find_runs(given))
    if not found.results:
        missing = ConfigError(f"no run in {', '.join(map(str, given))}: no folder there has a config.toml")
        raise next(iter(found.left_out.values()), missing)
    return found


def read_runs(paths: Iterable[Path]) -> Readings:
    """These runs, for tables and reports; unreadable ones are left out with a warning."""
    found = Readings([], {})
    for path in paths:
        try:
            found.results.append(_readable(path))
        except CounterpoiseError as error:
            found.left_out[path] = error
            LOG.warning("left out: %s", error)
    return found


def _readable(path: Path) -> RunResult:
    result = read_result(path)
    try:
        build_method(result.config["method"])
    except ConfigError as error:
        raise ConfigError(f"{path}: {error}") from None
    if result.has_result and not result.record:
        raise DataError(f"{path} has no record.json, which says what it ran on")
    return result


def read_result(path: Path) -> RunResult:
    """One run, finished or not; every reader of runs uses this function.

    A finished run must match the hashes in its summary; of an unfinished one every row is checked.
    """
    try:
        return _read(RunFolder(path))
    except OSError as error:
        raise DataError(f"{error.filename or path}: {error.strerror or error}") from None


def _read(folder: RunFolder) -> RunResult:
    # First: of a run that finishes meanwhile, the rows would otherwise be older than the summary.
    summary = read_sealed(folder.summary)
    tables, record = read_toml(folder.config), read_sealed(folder.record) or {}
    logs = {log: log.read_bytes() if log.exists() else b"" for log in (folder.metrics, folder.timing)}
    if summary is not None:
        check_files(folder.path, summary, _digests(folder, tables, record, logs))
    rounds, times = (parse_rows(content, log) for log, content in logs.items())
    check_rounds(rounds, folder.metrics)
    check_times(times, folder.timing)
    config = make_experiment(tables, str(folder.config)).tables()
    seconds = [float(row["seconds"]) for row in times]
    return RunResult(folder.path, config, record, rounds, seconds, summary, _failure(folder.path))


def _digests(
    folder: RunFolder, tables: dict[str, Any], record: dict[str, Any], logs: dict[Path, bytes]
) -> dict[str, str]:
    """Hashes of the files of a run, to compare with those in its summary; a missing record is left out."""
    return {
        folder.config.name: digest_of(binding(tables)),
        **({folder.record.name: record[SEAL]} if record else {}),
        **{log.name: hashlib.sha256(content).hexdigest() for log, content in logs.items()},
    }


def _failure(path: Path) -> str | None:
    """Why the run failed, as a sweep recorded it."""
    noted = read_object(path / FAILURE)
    if noted is None:
        return None
    if not isinstance(noted.get("error"), str):
        raise DataError(f"{path / FAILURE} is damaged: it does not say why the run failed")
    return str(noted["error"])


def _below(path: Path) -> Iterator[Path]:
    if not path.is_dir():
        raise ConfigError(
            f"{path} is not a folder; it must be the folder of a run, or one that contains runs"
        )
    found = (config.parent for config in path.rglob(CONFIG) if _holds_run(config.parent))
    yield from sorted(run for run in found if TUNING not in run.relative_to(path).parts)


def _holds_run(path: Path) -> bool:
    return RunFolder(path).checkpoints.is_dir() or (path / FAILURE).exists()
