"""A real deployment on loopback for tests: TLS, node keys, and programs that can be killed one by one."""

from __future__ import annotations

import json
import os
import signal
import socket
import subprocess
import time
from collections.abc import Callable, Collection, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from flwr.app import Message
from local_grid import FIRST_NODE, LocalGrid, join, seats_of

from counterpoise.engines.choose import EngineSettings
from counterpoise.engines.workplace import Workplace
from counterpoise.flower import children
from counterpoise.flower.certs import CertFolder, make_certs
from counterpoise.flower.children import Child
from counterpoise.flower.server import FlowerEngine
from counterpoise.run.config.experiment import Experiment, make_experiment
from counterpoise.run.runner import start
from counterpoise.run.store.folder import RunFolder
from counterpoise.system.toml import write_toml

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


def free_port() -> int:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return int(probe.getsockname()[1])


@dataclass
class Deployed:
    """Clients at work, each a program of its own, and a server that is started for run after run."""

    path: Path
    names: list[str]
    certs: CertFolder
    port: int
    nodes: dict[str, Child] = field(default_factory=dict)
    server: Child | None = None

    def start_node(self, name: str, port: int | None = None, *words: str, state: str = "") -> Child:
        """A client's program; by default with the state folder that bears its name."""
        given = [
            "--server",
            f"127.0.0.1:{port or self.port}",
            "--state",
            str(self.path / (state or name)),
            *words,
        ]
        if "--insecure" not in words and "--certs" not in words:
            given += ["--certs", str(self.certs.path)]
        child = self._program(f"client-{state or name}", "client", "--client", name, *given)
        self.nodes[state or name] = child
        return child

    def start_server(self, config: Experiment | None, out: Path) -> Child:
        """The server's program with a run, or with its continuation."""
        what = ["--resume", str(out)]
        if config is not None:
            file = self.path / f"experiment-{time.monotonic_ns()}.toml"
            file.write_text(write_toml(config.tables()))
            what = [str(file), "--out", str(out)]
        words = ["server", *what, "--port", str(self.port), "--certs", str(self.certs.path)]
        self.server = self._program("server", *words)
        return self.server

    def finish(self, out: Path, seconds: float = 900.0) -> dict[str, Any]:
        assert self.server is not None
        status = self.server.process.wait(seconds)
        assert status == 0, self.log("server")
        return dict(json.loads(RunFolder(out).summary.read_text()))

    def run(self, config: Experiment | None, out: Path) -> dict[str, Any]:
        self.start_server(config, out)
        return self.finish(out)

    def log(self, name: str) -> str:
        return (self.path / "logs" / f"{name}.log").read_text()

    def _program(self, name: str, *words: str) -> Child:
        return children.start(
            name, [*children.program(), "flower", *words], self.path / "logs" / f"{name}.log"
        )

    def children(self) -> list[Child]:
        return [*self.nodes.values(), *([] if self.server is None else [self.server])]


def kill(child: Child) -> None:
    """A program with all its processes, at once."""
    os.killpg(child.process.pid, signal.SIGKILL)
    child.process.wait()


@contextmanager
def deployed(path: Path, clients: int = 2, start_nodes: bool = True) -> Iterator[Deployed]:
    names = [str(k) for k in range(clients)]
    here = Deployed(path, names, make_certs(path / "certs", names), free_port())
    try:
        for name in names if start_nodes else []:
            here.start_node(name)
        yield here
    finally:
        children.stop(here.children())
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


def run_program(*words: str | Path) -> subprocess.CompletedProcess[str]:
    command = [*children.program(), *map(str, words)]
    return subprocess.run(command, capture_output=True, text=True, timeout=300, check=False)


def wait_until(condition: Callable[[], bool], seconds: float) -> None:
    deadline = time.monotonic() + seconds
    while not condition():
        assert time.monotonic() < deadline, "waited in vain"
        time.sleep(0.05)


def rounds_done(out: Path) -> int:
    return len(replied(out))


def replied(out: Path) -> list[int]:
    """Clients that answered in each round that is over; the last row may be half written."""
    path = RunFolder(out).metrics
    lines = path.read_bytes().splitlines(keepends=True) if path.exists() else []
    return [json.loads(line)["replied"] for line in lines if line.endswith(b"\n")]
