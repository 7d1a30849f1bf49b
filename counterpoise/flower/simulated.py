"""Flower's simulation in this process: clients are Ray tasks on this machine, without a network port."""

from __future__ import annotations

import json
import os
import threading
from collections.abc import Iterable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import replace
from functools import lru_cache
from pathlib import Path
from typing import Any

from flwr.app import Context, Message
from flwr.clientapp import ClientApp
from flwr.server.superlink.fleet.vce.metrics import VceMetrics
from flwr.server.superlink.fleet.vce.vce_api import start_vce
from flwr.superlink.grid import InMemoryGrid

from counterpoise.data.federation import Federation
from counterpoise.errors import RunError
from counterpoise.flower import adapter, client
from counterpoise.flower.client import ClientContext
from counterpoise.flower.grid import Grid, OnReply
from counterpoise.flower.job import ClientFile
from counterpoise.flower.workplaces import open_context
from counterpoise.run.assemble import load_federation
from counterpoise.run.config.experiment import parse_experiment

SETTINGS = "COUNTERPOISE_FLOWER_SETTINGS"  # path of the job settings, for Ray processes
SHUTDOWN = 30.0  # seconds for Ray to end
WEIGHTS = "weights"  # in the settings of this machine: the path of the model's weights
STATE = "COUNTERPOISE_FLOWER_STATE"  # folder of all clients' memory

BACKEND = {
    "client_resources": {"num_cpus": 1, "num_gpus": 0.0},
    "init_args": {
        "_node_ip_address": "127.0.0.1",
        "include_dashboard": False,
        "log_to_driver": False,
        "logging_level": "error",
    },
}

app = ClientApp()


def hello(message: Message, context: Context) -> Message:
    return _answer(message, context, client.say_hello)


def train(message: Message, context: Context) -> Message:
    return _answer(message, context, client.train)


def measure(message: Message, context: Context) -> Message:
    return _answer(message, context, client.measure_models)


def add_up(message: Message, context: Context) -> Message:
    return _answer(message, context, client.add_up)


def _answer(message: Message, context: Context, handler: client.Handler) -> Message:
    name = str(context.node_config["partition-id"])
    return client.answer(message, lambda: _context(name, os.environ[SETTINGS], os.environ[STATE]), handler)


app.query("hello")(hello)
app.query("sum")(add_up)
app.train()(train)
app.evaluate("measure")(measure)


@lru_cache(maxsize=64)
def _context(name: str, settings: str, state: str) -> ClientContext:
    """Opened once per Ray process, which serves several clients in turn."""
    found = json.loads(Path(settings).read_text())
    return open_context(
        found, ClientFile(name, state, weights=found.get(WEIGHTS)), _shared(str(found["experiment"]))
    )


@lru_cache(maxsize=1)
def _shared(text: str) -> Federation:
    return load_federation(parse_experiment(text))


@contextmanager
def simulation(
    settings: Mapping[str, Any], folder: Path, clients: int, root: str | None, weights: str | None
) -> Iterator[Grid]:
    """Nodes in Ray, while this block runs; `root`: the experiment's data root, if any, and `weights` its model's."""
    path = folder / "settings.json"
    own_weights = None if weights is None else str(Path(weights).absolute())
    path.write_text(json.dumps({**settings, WEIGHTS: own_weights}))
    own = {SETTINGS: str(path), STATE: str(folder / "clients"), "RAY_USAGE_STATS_ENABLED": "0"}
    own |= {} if root is None else {"COUNTERPOISE_DATA": root}
    before, stop = {name: os.environ.get(name) for name in own}, threading.Event()
    os.environ.update(own)
    grid = _start_nodes(clients, stop)
    try:
        yield grid
    finally:
        stop.set()
        grid.nodes.join(SHUTDOWN)
        for name, value in before.items():
            os.environ.pop(name) if value is None else os.environ.update({name: value})


def _start_nodes(clients: int, stop: threading.Event) -> SimulationGrid:
    factory = adapter.link_factory()
    link = factory.state()
    (run,) = link.get_run_info(run_ids=[adapter.open_run(link, {})])
    nodes = threading.Thread(
        target=start_vce,
        kwargs={
            "backend_name": "ray",
            "backend_config_json_stream": json.dumps(BACKEND),
            "app_dir": "",
            "is_app": False,
            "f_stop": stop,
            "run": replace(run, fab_id=""),  # without a name Flower looks for no app bundle
            "metrics": VceMetrics(),
            "client_app": app,
            "num_supernodes": clients,
            "state_factory": factory,
        },
        daemon=True,
    )
    nodes.start()
    grid = SimulationGrid(factory, nodes)
    grid.set_run(run)
    return grid


class SimulationGrid(InMemoryGrid):
    """Flower's grid, which by itself would wait forever for nodes that could not be started."""

    def __init__(self, factory: Any, nodes: threading.Thread) -> None:
        super().__init__(factory)
        self.nodes = nodes
        self.not_admitted: Mapping[str, str] = {}  # no client is refused here
        self.late: Mapping[str, int] = {}

    def listen(self, on_reply: OnReply) -> None:
        """Flower's simulation does not report single replies."""

    def get_node_ids(self) -> Iterable[int]:
        if not self.nodes.is_alive():
            raise RunError("Flower's simulation ended: Ray could not be started, or stopped")
        return list(super().get_node_ids())
