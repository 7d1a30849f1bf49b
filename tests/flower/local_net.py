"""Clients with files of their own, and a server's run among them, all in the test's process."""

from __future__ import annotations

from collections.abc import Callable
from functools import cache, partial
from pathlib import Path
from typing import Any, cast

from flwr.app import Message
from local_grid import FIRST_NODE, LocalGrid

from counterpoise.flower.client import ClientContext
from counterpoise.flower.commands import prepare
from counterpoise.flower.job import ClientFile, JobSettings
from counterpoise.flower.serve import run
from counterpoise.flower.workplaces import open_context
from counterpoise.run.config.experiment import Experiment


class Net:
    """A client takes its context when the first message of a run comes, as in a process of its own."""

    def __init__(self, path: Path, clients: dict[str, Path | None], **reading: Any) -> None:
        self.path, self.before = path, cast(Callable[[Message], None], lambda ask: None)
        self.clients = {
            name: ClientFile(name, str(path / "clients" / name), None if data is None else str(data), reading)
            for name, data in clients.items()
        }
        self.grid = LocalGrid({})

    def run(self, config: Experiment | None, out: Path) -> dict[str, Any]:
        ready = prepare(config, out, named_nodes=False)
        seats: dict[int, ClientContext | Callable[[], ClientContext]] = {
            FIRST_NODE - k: self.context(name, ready.settings) for k, name in enumerate(self.clients)
        }
        self.grid = LocalGrid(seats, before=self.before)
        return run(self.grid, ready)

    def context(self, name: str, told: JobSettings) -> Callable[[], ClientContext]:
        return cache(partial(open_context, told, self.clients[name]))


def numbered(path: Path, count: int) -> Net:
    return Net(path, {str(k): None for k in range(count)})
