"""A real deployment on loopback for tests: TLS, node keys, programs that can be killed one by one."""

from __future__ import annotations

import json
import os
import signal
import time
from collections.abc import Callable, Collection, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from flwr.app import Message
from local_grid import FIRST_NODE, LocalGrid, join, seats_of

from counterpoise.engines.choose import EngineSettings
from counterpoise.engines.flower import commands, deployment, processes
from counterpoise.engines.flower.certs import make_certs
from counterpoise.engines.flower.deployment import Link
from counterpoise.engines.flower.job import JobFolder
from counterpoise.engines.flower.processes import Child
from counterpoise.engines.flower.server import FlowerEngine
from counterpoise.engines.workplace import Workplace
from counterpoise.experiment.config import Experiment, make_experiment
from counterpoise.experiment.folder import RunFolder
from counterpoise.experiment.runner import start

SETTING: dict[str, Any] = {
    "data": {"name": "digits", "imbalance": 20.0},
    "partition": {"name": "dirichlet", "clients": 2, "alpha": 0.5},
    "local": {"batch_size": 64},
    "engine": {"device": "cpu", "name": "loop", "processes": 1},
    "flower": {
        "timeout": 600.0,
        "wait": 600.0,
    },  # what a busy machine may need; nothing waits so long where all is well
}


def experiment(method: Any, rounds: int, clients: int = 2, **tables: Any) -> Experiment:
    partition = {**SETTING["partition"], "clients": clients}
    return make_experiment({**SETTING, "partition": partition, "method": method, "rounds": rounds, **tables})


def embedded_sha(config: Experiment, out: Path) -> str:
    """What the same run comes to in one process."""
    return str(start(config, out)["params_sha256"])


def drop_out_sha(config: Experiment, out: Path, client: int, absent: Collection[int]) -> str:
    """What the run comes to in this process where a client does not answer in these rounds."""

    def connect(settings: EngineSettings, work: Workplace) -> FlowerEngine:
        def lost(reply: Message) -> bool:
            there = reply.metadata.src_node_id == FIRST_NODE - client
            return there and reply.metadata.group_id in {str(number) for number in absent}

        grid = LocalGrid(seats_of(work, out.with_name("memory")))
        grid.alter = lambda replies: [reply for reply in replies if not lost(reply)]
        return join(grid, work)

    return str(start(config, out, connect=connect)["params_sha256"])


@dataclass
class Deployed:
    """Superlink and supernodes at work; runs are handed to it one after another."""

    folder: JobFolder
    link: Link
    names: list[str]
    superlink: Child
    nodes: dict[str, Child] = field(default_factory=dict)

    def launch(self, config: Experiment | None, out: Path) -> commands.Prepared:
        """Hand a run to Flower, or its continuation."""
        ready = commands.prepare(config, out, named_nodes=True)
        self.folder.write_job(ready.job)
        deployment.call(
            ["flwr", "run", str(ready.folder.app), deployment.CONNECTION],
            deployment.environment(self.folder.home),
        )
        return ready

    def finish(self, ready: commands.Prepared) -> dict[str, Any]:
        return commands.follow(ready, self.superlink, None)

    def run(self, config: Experiment | None, out: Path) -> dict[str, Any]:
        return self.finish(self.launch(config, out))

    def start_node(self, name: str, link: Link | None = None) -> None:
        self.nodes[name] = commands.local_supernode(self.folder, link or self.link, name)

    def kill_node(self, name: str) -> None:
        """A node with all its processes, at once."""
        os.killpg(self.nodes[name].process.pid, signal.SIGKILL)
        self.nodes[name].process.wait()

    def kill_superlink(self) -> None:
        os.killpg(self.superlink.process.pid, signal.SIGKILL)
        self.superlink.process.wait()

    def restart_superlink(self) -> None:
        self.superlink = deployment.start_superlink(self.folder, self.link)

    def children(self) -> list[Child]:
        return [*self.nodes.values(), self.superlink]


@contextmanager
def deployed(path: Path, clients: int = 2, start_nodes: bool = True) -> Iterator[Deployed]:
    folder, names = JobFolder(path), [str(k) for k in range(clients)]
    folder.open()
    certs = make_certs(path / "certs", names)
    link = Link("127.0.0.1", processes.free_port(), certs)
    here = Deployed(folder, link, names, deployment.start_superlink(folder, link))
    try:
        for name in names:
            deployment.register(folder, certs, name)
            if start_nodes:
                here.start_node(name)
        yield here
    finally:
        processes.stop(here.children())
    assert leftovers(path) == []


def leftovers(path: Path) -> list[str]:
    """Command lines of living processes that name a deployment's folder."""
    found = []
    for place in Path("/proc").iterdir():
        if place.name.isdigit() and int(place.name) != os.getpid():
            try:
                words = (place / "cmdline").read_bytes() + (place / "environ").read_bytes()
            except OSError:
                continue
            if str(path).encode() in words:
                found.append((place / "cmdline").read_text().replace("\0", " "))
    return found


def wait_until(condition: Callable[[], bool], seconds: float) -> None:
    deadline = time.monotonic() + seconds
    while not condition():
        assert time.monotonic() < deadline, "waited in vain"
        time.sleep(0.2)


def rounds_done(out: Path) -> int:
    return len(replied(out))


def replied(out: Path) -> list[int]:
    """Clients that answered in each round that is over; the last row may be half written."""
    path = RunFolder(out).metrics
    lines = path.read_bytes().splitlines(keepends=True) if path.exists() else []
    return [json.loads(line)["replied"] for line in lines if line.endswith(b"\n")]
