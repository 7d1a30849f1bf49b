"""What must agree for a resumed run to reach the same result."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from torch import Tensor

from counterpoise.client.functional import FunctionalModel
from counterpoise.data.federation import Federation
from counterpoise.errors import ConfigError, short
from counterpoise.run.assemble import fingerprint
from counterpoise.run.config.experiment import Experiment
from counterpoise.run.store.record import versions

DIGESTS = {
    "data_sha256": "the data",
    "model_sha256": "the model",
    "frozen_sha256": "the frozen part of the model",
}


def facts_of(experiment: Experiment, federation: Federation, model: FunctionalModel) -> dict[str, Any]:
    """Config, data, shapes of the model, its frozen parameters where it has any, and versions, as a checkpoint stores them."""
    frozen = {"frozen_sha256": model.frozen_sha256} if model.frozen_sha256 else {}
    return {
        "config": experiment.binding_tables(),
        "data_sha256": fingerprint(federation),
        "model_sha256": shapes_digest(model.params()),
        **frozen,
        "versions": versions(experiment.model.name),
    }


def check_facts(folder: Path, found: Mapping[str, Any], now: Mapping[str, Any]) -> None:
    """Refuse to resume with anything that would change the result; the error names what differs."""
    if difference := first_difference(found["config"], now["config"]):
        raise ConfigError(f"{folder} cannot be resumed: {difference}; put it back, or start a new run")
    # A plugin installed since then played no part in this run.
    versions_now = {name: now["versions"].get(name) for name in found["versions"]}
    if difference := first_difference(found["versions"], versions_now):
        raise ConfigError(
            f"{folder} cannot be resumed to the same result: {difference}; install that version, or start a new run"
        )
    for key, what in DIGESTS.items():
        if found.get(key) != now.get(key):
            raise ConfigError(
                f"{folder} cannot be resumed: {what} has changed (its SHA-256 differs); put it back, or start a new run"
            )


def shapes_digest(params: Mapping[str, Tensor]) -> str:
    """SHA-256 of the names and shapes of a model's parameters."""
    shapes = {name: list(tensor.shape) for name, tensor in params.items()}
    return hashlib.sha256(json.dumps(shapes, sort_keys=True).encode()).hexdigest()


def first_difference(before: Mapping[str, Any], now: Mapping[str, Any], path: str = "") -> str | None:
    """The first key whose value differs, in words."""
    for key in sorted({*before, *now}):
        old, new = before.get(key), now.get(key)
        if isinstance(old, Mapping) and isinstance(new, Mapping):
            if inner := first_difference(old, new, f"{path}{key}."):
                return inner
        elif json.dumps(old, sort_keys=True) != json.dumps(new, sort_keys=True):
            return f"{path}{key} was {short(old)} and is {short(new)}"
    return None
