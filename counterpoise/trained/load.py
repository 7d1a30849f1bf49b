"""A run's folder as one object: its numbers as frames, its confusion counts, its model."""

from __future__ import annotations

from functools import cached_property
from pathlib import Path
from typing import Any, Literal

from counterpoise.data.preprocessing import Preprocessing, preprocessing_from_json
from counterpoise.data.root import sha256_of
from counterpoise.errors import ConfigError, DataError, RunError, short
from counterpoise.metrics.threshold import Decision
from counterpoise.report.outcome import Facts
from counterpoise.results.results import RunResult, read_result
from counterpoise.run.config.experiment import Experiment, make_experiment
from counterpoise.run.store.folder import RunFolder
from counterpoise.run.store.seal import SEAL, check_files, read_sealed
from counterpoise.run.trained import (
    TrainedModel,
    build_trained,
    decision_of,
    refuse_without_model,
)
from counterpoise.trained.frames import class_frame, client_frame, round_frame
from counterpoise.trained.outcome import RunOutcome

FRAMES = {"rounds": round_frame, "classes": class_frame, "clients": client_frame}
USE = "use it: .predict(x), .module, .frame(), .confusion()"


class LoadedRun(RunOutcome):
    """A run's folder; its summary by key, as of `simulate`."""

    def __init__(self, result: RunResult) -> None:
        self.result, self.path, self._folder = result, result.path, RunFolder(result.path)

    @cached_property
    def summary(self) -> dict[str, Any]:
        if not self.result.has_result:
            why = self.result.given_up or f"it is not finished; {self._folder.resume_hint()}"
            raise RunError(f"{self.path} has no result: {why}")
        assert self.result.summary is not None
        return self.result.summary

    @cached_property
    def facts(self) -> Facts:
        data, model = self.result.record["data"], self.result.config["model"]["name"]
        return Facts(data["name"], data["classes"], len(self.result.samples), model, USE)

    @property
    def classes(self) -> tuple[str, ...]:
        return tuple(self.result.record["data"]["classes"])

    @property
    def test_samples(self) -> int:
        """Samples of the test set; of records of older versions, which do not tell, those whose answers were counted."""
        counted = sum(map(sum, self.summary.get("confusion", [])))
        return int(self.result.record["data"].get("test_samples", counted))

    @cached_property
    def experiment(self) -> Experiment:
        return make_experiment(self.result.config, str(self._folder.config))

    @cached_property
    def preprocessing(self) -> Preprocessing:
        """How data becomes inputs of the model."""
        path = self._folder.preprocessing
        found = read_sealed(path)
        if found is None:
            raise DataError(
                f"{path} is missing: put it back; a run of an older version writes it when it is resumed where its data is"
            )
        self._check(path.name, found.pop(SEAL))
        return preprocessing_from_json(found, str(path))

    @property
    def decision(self) -> Decision | None:
        """As of the model, which need not be loaded for it."""
        return decision_of(self.summary, self.classes, self.experiment.data.positive)

    def frame(self, what: Literal["rounds", "classes", "clients"] = "rounds") -> Any:
        """A data frame of the run's rounds, of its classes by name, or of its clients by name."""
        if what not in FRAMES:
            raise ConfigError(f"frame must be one of {', '.join(FRAMES)}, not {short(what)}")
        return FRAMES[what](self.result)

    @cached_property
    def module(self) -> TrainedModel:
        """The trained model, loaded when it is first asked for."""
        assert self.summary
        refuse_without_model(self.experiment.build_method(), str(self.path))
        path = self._folder.model
        if not path.is_file():
            raise DataError(f"{path} is missing; put it back, or {self._folder.resume_hint()}")
        self._check(path.name, sha256_of(path))
        return build_trained(self.experiment, self.preprocessing, path, self.decision)

    def _check(self, name: str, digest: str) -> None:
        """Refuse a file that is not what the run wrote; older versions did not note the hashes of all."""
        if name in self.summary["files_sha256"]:
            check_files(self.path, self.summary, {name: digest})

    def _lines(self) -> list[str]:
        if not self.result.has_result:
            rounds = f"{len(self.result.rows)} of {self.result.config['rounds']} rounds done"
            return [f"{self.result.method} in {self.path}: not finished, {rounds}"]
        return super()._lines()


def load_run(path: Path | str) -> LoadedRun:
    """A run's folder as one object: ``frame``, ``confusion``, ``module``, ``predict``."""
    path = Path(path)
    if not RunFolder(path).holds_run():
        raise ConfigError(f"{path} holds no run: there is no config.toml in it")
    result = read_result(path)
    if not result.record:
        raise DataError(f"{path} has no record.json, which says what it ran on")
    return LoadedRun(result)
