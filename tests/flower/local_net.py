"""Clients with files of their own, and a server's run among them, all in the test's process."""

from __future__ import annotations

import json
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Any, cast

from flwr.app import Message
from flwr.serverapp import Grid
from local_grid import FIRST_NODE, LocalGrid

from counterpoise.engines.flower.client import Seat
from counterpoise.engines.flower.commands import Prepared, prepare
from counterpoise.engines.flower.job import NODE_FILE, ClientFile, write_client_file
from counterpoise.engines.flower.serve import run
from counterpoise.engines.flower.workplaces import take_seat
from counterpoise.experiment.config import Experiment
from counterpoise.experiment.folder import RunFolder
from counterpoise.experiment.toml import read_toml


class Net:
    """A client takes its seat when a message comes, as in a process of its own."""

    def __init__(self, path: Path, clients: dict[str, Path | None], **reading: Any) -> None:
        self.path, self.before = path, cast(Callable[[Message], None], lambda ask: None)
        self.files = {name: path / "clients" / name / "client.json" for name in clients}
        for name, data in clients.items():
            own = None if data is None else str(data)
            write_client_file(self.files[name], ClientFile(name, str(path / "clients" / name), own, reading))
        self.grid = LocalGrid({})

    def run(self, config: Experiment | None, out: Path) -> dict[str, Any]:
        ready = prepare(config, out, named_nodes=False)
        told = told_config(ready)
        seats: dict[int, Seat | Callable[[], Seat]] = {
            FIRST_NODE - k: self.seat(name, told) for k, name in enumerate(self.files)
        }
        self.grid = LocalGrid(seats, before=self.before)
        run(cast(Grid, self.grid), told, ready.job, ready.folder)
        return cast(dict[str, Any], json.loads(RunFolder(out).summary.read_text()))

    def seat(self, name: str, told: dict[str, Any]) -> Callable[[], Seat]:
        return partial(take_seat, told, {NODE_FILE: str(self.files[name])})


def told_config(ready: Prepared) -> dict[str, Any]:
    """What both sides are told of a run."""
    project = read_toml(ready.folder.app / "pyproject.toml")
    return cast(dict[str, Any], project["tool"]["flwr"]["app"]["config"])


def numbered(path: Path, count: int) -> Net:
    return Net(path, {str(k): None for k in range(count)})
