"""Trackers: TensorBoard, MLflow and Weights & Biases."""

from __future__ import annotations

import json
import os
import secrets
import time
from collections.abc import Callable, Mapping
from contextlib import suppress
from pathlib import Path
from typing import Any, Protocol

from counterpoise.run.config.experiment import Experiment, dotted
from counterpoise.run.store.folder import RunFolder
from counterpoise.system.atomic import write_atomically
from counterpoise.system.toml import write_toml

LONGEST_PARAMETER = 500  # characters that every MLflow server accepts
OFFLINE = "offline"  # track.uri of Weights & Biases: nothing is sent


class Tracker(Protocol):
    """Receives the scores of a round; `step` is the number of rounds done."""

    def write(self, step: int, scores: Mapping[str, float]) -> None: ...

    def close(self, finished: bool) -> None: ...


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
            run = self._client.get_run(json.loads(_note(folder, "mlflow").read_bytes())["run_id"])
            self._client.update_run(run.info.run_id, status="RUNNING")
            return run
        return None

    def _new_run(self, experiment: Experiment, folder: RunFolder) -> Any:
        from mlflow.entities import Param, RunTag

        name = experiment.track.experiment
        group = self._client.get_experiment_by_name(name)
        number = group.experiment_id if group else self._client.create_experiment(name)
        run = self._client.create_run(number, run_name=folder.path.resolve().name)
        write_atomically(_note(folder, "mlflow"), json.dumps({"run_id": run.info.run_id}).encode())
        params = [Param(key, str(value)[:LONGEST_PARAMETER]) for key, value in _told(experiment).items()]
        tags = [RunTag("method", experiment.build_method().name), RunTag("seed", str(experiment.seed))]
        self._client.log_batch(run.info.run_id, params=params, tags=tags)
        return run

    def _last_step(self, name: str) -> int:
        return max(int(point.step) for point in self._client.get_metric_history(self._run.info.run_id, name))


class WeightsAndBiases:
    """A run of Weights & Biases, or its files in the run's folder for `wandb sync`; a resumed run continues it.

    Only scores and the config are sent: no code, no output, nothing of the machine.
    """

    def __init__(self, experiment: Experiment, folder: RunFolder) -> None:
        os.environ.setdefault("WANDB_ERROR_REPORTING", "false")  # before the import
        import wandb

        self._file = _note(folder, "wandb")
        self._known = self._read_note()
        self._run = wandb.init(
            project=experiment.track.experiment,
            name=folder.path.resolve().name,
            id=self._known["id"],
            resume="allow",
            dir=folder.path,
            config=_told(experiment),
            reinit="create_new",  # runs of a sweep may share a process
            settings=_wandb_settings(experiment.track.uri),
        )

    def write(self, step: int, scores: Mapping[str, float]) -> None:
        if step <= self._known["last"]:  # an earlier session has sent it
            return
        self._run.log(dict(scores), step=step)
        self._known["last"] = step
        write_atomically(self._file, json.dumps(self._known).encode())

    def close(self, finished: bool) -> None:
        self._run.finish(exit_code=0 if finished else 1)

    def _read_note(self) -> dict[str, Any]:
        with suppress(OSError, ValueError, KeyError, TypeError):
            known = json.loads(self._file.read_bytes())
            return {"id": str(known["id"]), "last": int(known["last"])}
        return {"id": secrets.token_hex(8), "last": 0}


def _wandb_settings(uri: str | None) -> Any:
    """Refuses to go on where wandb would ask for a key: nobody may be there to answer."""
    import wandb

    offline = uri == OFFLINE or os.environ.get("WANDB_MODE", "") in (OFFLINE, "disabled", "dryrun")
    if not offline and wandb.run is None and not wandb.login(host=uri, prompt=False, verify=False):
        raise RuntimeError('no key of Weights & Biases: `wandb login`, or track.uri = "offline"')
    where: dict[str, Any] = {"mode": OFFLINE} if uri == OFFLINE else {} if uri is None else {"base_url": uri}
    return wandb.Settings(
        console="off",
        silent=True,
        disable_git=True,
        disable_code=True,
        save_code=False,
        x_disable_stats=True,
        x_disable_meta=True,
        x_disable_machine_info=True,
        x_save_requirements=False,
        **where,
    )


def _told(experiment: Experiment) -> dict[str, Any]:
    """The config by dotted keys, without the address of the tracker."""
    return dotted({key: value for key, value in experiment.tables().items() if key != "track"})


def _note(folder: RunFolder, to: str) -> Path:
    """Where the id of a tracker's run is kept."""
    return folder.path / f"{to}.json"


TRACKERS: dict[str, Callable[[Experiment, RunFolder], Tracker]] = {
    "tensorboard": TensorBoard,
    "mlflow": MLflow,
    "wandb": WeightsAndBiases,
}
