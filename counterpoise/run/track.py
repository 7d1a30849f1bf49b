"""Scores to TensorBoard or MLflow during a run; a tracker that fails gives one warning and does not stop the run."""

from __future__ import annotations

import json
import logging
import os
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager, suppress
from importlib.util import find_spec
from pathlib import Path
from typing import Any, Protocol

from counterpoise.errors import ConfigError
from counterpoise.run.config.experiment import Experiment, dotted
from counterpoise.run.store.folder import RunFolder, read_rows
from counterpoise.system.atomic import write_atomically
from counterpoise.system.toml import write_toml

EXTRAS = {"tensorboard": "track", "mlflow": "mlflow"}  # package -> extra that brings it
LONGEST_PARAMETER = 500  # characters that every MLflow server accepts


class Tracker(Protocol):
    """Receives the scores of a round; `step` is the number of rounds done."""

    def write(self, step: int, scores: Mapping[str, float]) -> None: ...

    def close(self, finished: bool) -> None: ...


def check_tracker(to: str) -> None:
    """Refuse a tracker whose package is not installed, before anything runs."""
    if to in EXTRAS and find_spec(to) is None:
        raise ConfigError(f"track.to = {to!r} needs {to}: pip install 'counterpoise[{EXTRAS[to]}]'")


@contextmanager
def tracked(experiment: Experiment, folder: RunFolder) -> Iterator[Callable[[Mapping[str, Any], int], None]]:
    """Sends the scores of all rounds so far and of each further round, until the tracker fails."""
    if experiment.track.to == "none":
        yield lambda row, rounds: None
        return
    tracking = Tracking(experiment.track.to)
    with tracking.guarded():
        tracking.tracker = TRACKERS[tracking.to](experiment, folder)
    for row in read_rows(folder.metrics):
        tracking.send(row)
    finished = False
    try:
        yield tracking.send
        finished = True
    finally:
        with tracking.guarded():
            if tracking.tracker is not None:
                tracking.tracker.close(finished)


class Tracking:
    """Sends rows to a tracker, and drops it at its first failure."""

    def __init__(self, to: str) -> None:
        self.to = to
        self.tracker: Tracker | None = None

    def send(self, row: Mapping[str, Any], rounds: int = 0) -> None:
        with self.guarded():
            if self.tracker is not None and "accuracy" in row:
                self.tracker.write(row["round"] + 1, scores_of(row))

    @contextmanager
    def guarded(self) -> Iterator[None]:
        try:
            yield
        except Exception as error:  # no failure of a tracker may stop the run
            self.tracker = None
            reason = " ".join(f"{type(error).__name__}: {error}".split())
            logging.getLogger("counterpoise").warning(
                "%s failed (%s); the run goes on without it, and `counterpoise resume` sends the scores later",
                self.to,
                reason,
            )


def scores_of(row: Mapping[str, Any]) -> dict[str, float]:
    """The numbers of a row; those of a nested table as ``validation/accuracy``."""
    found: dict[str, float] = {}
    for name, value in row.items():
        if isinstance(value, Mapping) and name != "diagnostics":
            found |= {f"{name}/{inner}": number for inner, number in scores_of(value).items()}
        elif isinstance(value, int | float) and not isinstance(value, bool) and name != "round":
            found[name] = float(value)
    return found


class TensorBoard:
    """Event files; what an earlier session wrote is purged and all rounds are written again."""

    def __init__(self, experiment: Experiment, folder: RunFolder) -> None:
        from torch.utils.tensorboard import SummaryWriter

        uri = experiment.track.uri
        place = folder.path / "tensorboard" if uri is None else Path(uri) / folder.path.resolve().name
        self._writer: Any = SummaryWriter(str(place), purge_step=0)
        self._writer.add_text("config", f"```toml\n{write_toml(experiment.tables())}```")

    def write(self, step: int, scores: Mapping[str, float]) -> None:
        for name, value in scores.items():
            self._writer.add_scalar(name, value, step)
        self._writer.flush()

    def close(self, finished: bool) -> None:
        self._writer.close()


class MLflow:
    """A run of an MLflow server or database; its id is stored in the run's folder, so that a resumed run continues it."""

    def __init__(self, experiment: Experiment, folder: RunFolder) -> None:
        # Runs may be on private data: MLflow must send no telemetry.
        os.environ.setdefault("MLFLOW_DISABLE_TELEMETRY", "true")
        from mlflow import MlflowClient

        self._client = MlflowClient(tracking_uri=experiment.track.uri)
        self._run = self._known_run(folder) or self._new_run(experiment, folder)
        self._last = {name: self._last_step(name) for name in self._run.data.metrics}

    def write(self, step: int, scores: Mapping[str, float]) -> None:
        from mlflow.entities import Metric

        now = int(1000 * time.time())
        new = {name: value for name, value in scores.items() if step > self._last.get(name, 0)}
        if new:
            metrics = [Metric(name, value, now, step) for name, value in new.items()]
            self._client.log_batch(self._run.info.run_id, metrics=metrics)

    def close(self, finished: bool) -> None:
        self._client.set_terminated(self._run.info.run_id, "FINISHED" if finished else "KILLED")

    def _known_run(self, folder: RunFolder) -> Any:
        from mlflow.exceptions import MlflowException

        with suppress(OSError, ValueError, KeyError, MlflowException):
            run = self._client.get_run(json.loads(_note(folder).read_bytes())["run_id"])
            self._client.update_run(run.info.run_id, status="RUNNING")
            return run
        return None

    def _new_run(self, experiment: Experiment, folder: RunFolder) -> Any:
        from mlflow.entities import Param, RunTag

        name = experiment.track.experiment
        group = self._client.get_experiment_by_name(name)
        number = group.experiment_id if group else self._client.create_experiment(name)
        run = self._client.create_run(number, run_name=folder.path.resolve().name)
        write_atomically(_note(folder), json.dumps({"run_id": run.info.run_id}).encode())
        tables = {key: value for key, value in experiment.tables().items() if key != "track"}
        params = [Param(key, str(value)[:LONGEST_PARAMETER]) for key, value in dotted(tables).items()]
        tags = [RunTag("method", experiment.build_method().name), RunTag("seed", str(experiment.seed))]
        self._client.log_batch(run.info.run_id, params=params, tags=tags)
        return run

    def _last_step(self, name: str) -> int:
        return max(int(point.step) for point in self._client.get_metric_history(self._run.info.run_id, name))


def _note(folder: RunFolder) -> Path:
    return folder.path / "mlflow.json"


TRACKERS: dict[str, Callable[[Experiment, RunFolder], Tracker]] = {
    "tensorboard": TensorBoard,
    "mlflow": MLflow,
}
