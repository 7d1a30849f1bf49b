"""The folder that Flower runs: a pyproject that points at this package, with the config in it."""

from __future__ import annotations

import json
from collections.abc import Mapping
from pathlib import Path

from counterpoise.engines.flower import FLWR
from counterpoise.experiment.config import Experiment
from counterpoise.experiment.tables import DataTable, TrackTable
from counterpoise.experiment.toml import write_toml

PROJECT = f"""
[build-system]
requires = ["hatchling"]
build-backend = "hatchling.build"

[project]
name = "counterpoise-run"
version = "1.0.0"
description = "A run of counterpoise"
license = "MIT"
dependencies = ["flwr=={FLWR}"]

[tool.flwr.app]
publisher = "counterpoise"

[tool.flwr.app.components]
serverapp = "counterpoise.engines.flower.server_app:app"
clientapp = "counterpoise.engines.flower.client_app:app"

[tool.flwr.app.config]
"""


def write_app(folder: Path, experiment: Experiment, clients: int, run: str, form: str) -> None:
    """What clients are sent: of the server's own data only its form, where they bring theirs."""
    told = experiment.model_copy(update={"track": TrackTable()})  # an address may hold a password
    if experiment.flower.clients:
        data = DataTable(name=experiment.data.name, augment=experiment.data.augment)
        told = told.model_copy(update={"data": data})
    config: Mapping[str, str | int] = {
        "experiment": write_toml(told.tables()),
        "clients": clients,
        "run": run,
        "form": form,
    }
    lines = "".join(f"{key} = {json.dumps(value)}\n" for key, value in config.items())
    (folder / "pyproject.toml").write_text(PROJECT.lstrip() + lines)
