"""What a run over Flower is told: the same config for both sides, and for each side where its own files are."""

from __future__ import annotations

import json
import os
import re
import secrets
from collections.abc import Mapping
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any

from counterpoise.errors import ConfigError
from counterpoise.experiment.atomic import write_atomically

JOB = "COUNTERPOISE_FLOWER_JOB"  # path of the job's file, for the server app
STATE = "COUNTERPOISE_FLOWER_STATE"  # folder of all clients' memory, in a simulation
NODE_FILE = "counterpoise-client"  # key of a node's config: path of the client's file
CLIENT_NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]{0,63}")


@dataclass(frozen=True)
class Job:
    """The server's side."""

    out: str
    resume: bool = False
    named_nodes: bool = False  # nodes are registered under their clients' names
    attempt: str = field(
        default_factory=lambda: secrets.token_hex(8)
    )  # tells a resumed run from what it follows


@dataclass(frozen=True)
class ClientFile:
    """The client's side; stays on its machine."""

    name: str
    state: str
    data: str | None = None  # its own file or folder; None: its share of the experiment's data
    reading: dict[str, Any] = field(default_factory=dict)  # how to read it, such as the label column


class JobFolder:
    """Files of the server's side, within the run's folder."""

    def __init__(self, out: Path) -> None:
        self.path = out.absolute() / "flower"
        self.job = self.path / "job.json"
        self.experiment = self.path / "experiment.toml"
        self.process = self.path / "server-app.pid"
        self.run = self.path / "run-id"
        self.roster = self.path / "roster.json"
        self.traffic = self.path / "traffic.jsonl"
        self.app = self.path / "app"
        self.home = self.path / "home"
        self.logs = self.path / "logs"
        self.database = self.path / "superlink.db"
        self.clients = self.path / "clients"

    def open(self, resume: bool = False) -> None:
        """Ready for an attempt; a new run keeps nothing of one that did not get to its start."""
        for folder in (self.path, self.app, self.home, self.logs):
            folder.mkdir(parents=True, exist_ok=True)
        stale = [self.process] if resume else [self.process, self.run, self.roster, self.traffic]
        for path in stale:
            path.unlink(missing_ok=True)

    def run_id(self) -> str:
        """A name of this run that clients keep its memory under; the same when it is resumed."""
        if not self.run.exists():
            write_atomically(self.run, secrets.token_hex(32).encode())
        return self.run.read_text()

    def write_job(self, job: Job) -> None:
        write_atomically(self.job, json.dumps(asdict(job)).encode())

    def outcome(self, job: Job) -> Path:
        return self.path / f"outcome-{job.attempt}.json"

    def finish(self, job: Job, error: str = "", exit_code: int = 0) -> None:
        """The server app's last word."""
        write_atomically(self.outcome(job), json.dumps({"error": error, "exit_code": exit_code}).encode())


def read_job() -> Job:
    return Job(**json.loads(Path(os.environ[JOB]).read_text()))


def write_client_file(path: Path, client: ClientFile) -> None:
    path.parent.mkdir(parents=True, exist_ok=True, mode=0o700)
    write_atomically(path, json.dumps(asdict(client)).encode())


def read_client_file(node_config: Mapping[str, Any]) -> ClientFile:
    """Who this node is: by its file, or in a simulation by its place."""
    if NODE_FILE in node_config:
        return ClientFile(**json.loads(Path(str(node_config[NODE_FILE])).read_text()))
    return ClientFile(str(node_config["partition-id"]), os.environ[STATE])


def check_name(name: str) -> str:
    if not CLIENT_NAME.fullmatch(name):
        raise ConfigError(
            f"client name {name!r} is not legal; legal: up to 64 letters, digits, dots, hyphens and underscores"
        )
    return name
