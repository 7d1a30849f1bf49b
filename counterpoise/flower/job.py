"""The job of a run over Flower: the settings that clients receive, and where each side keeps its files."""

from __future__ import annotations

import json
import math
import os
import re
import secrets
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

from counterpoise.errors import ConfigError, short
from counterpoise.run.config.experiment import Experiment
from counterpoise.run.config.tables import DataTable, ModelTable, TrackTable
from counterpoise.run.store.folder import read_rows
from counterpoise.system.atomic import sync_folder, write_atomically
from counterpoise.system.toml import write_toml

CLIENT_NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]{0,63}")

JobSettings = dict[str, str | int]


@dataclass(frozen=True)
class ClientFile:
    """A client's name and files; never leaves its machine."""

    name: str
    state: str
    data: str | None = None  # its own file or folder; None: its share of the experiment's data
    reading: dict[str, Any] = field(default_factory=dict)  # how to read it, such as the label column
    weights: str | None = None  # its copy of the file of the frozen part of the model
    certs: str | None = None  # its folder of certificates
    private: bool = False  # it takes part only where its class counts are hidden from the server


class JobFolder:
    """Files of the server in the run's folder, readable by the owner only."""

    def __init__(self, out: Path) -> None:
        self.path = out.absolute() / "flower"
        self.experiment = self.path / "experiment.toml"
        self.run = self.path / "run-id"
        self.roster = self.path / "roster.json"
        self.spent = self.path / "spent.jsonl"
        self.traffic = self.path / "traffic.jsonl"
        self.status = self.path / "status.json"
        self.logs = self.path / "logs"
        self.clients = self.path / "clients"

    def open(self, resume: bool = False) -> None:
        """Make the folders; a new run deletes what an attempt that never started left."""
        # A new run folder too: other users of this machine must not read model and class counts.
        self.path.parent.mkdir(parents=True, exist_ok=True, mode=0o700)
        for folder in (self.path, self.logs):
            folder.mkdir(exist_ok=True)
            folder.chmod(0o700)
        first = [] if resume else [self.run, self.roster, self.traffic]
        for path in [self.status, *first]:
            path.unlink(missing_ok=True)

    def spend(self, epsilon: float) -> float:
        """Count a sum with noise before clients are asked for it: whatever comes then, they may have answered.

        Returns what all of them spent, also those of starts in this folder that were killed before there was a run.
        """
        with self.spent.open("a") as stream:
            stream.write(json.dumps({"epsilon": epsilon}) + "\n")
            stream.flush()
            os.fsync(stream.fileno())
        sync_folder(self.path)
        return math.fsum(row["epsilon"] for row in read_rows(self.spent))

    def run_id(self) -> str:
        """The id under which clients store memory of this run; the same when it is resumed."""
        if not self.run.exists():
            write_atomically(self.run, secrets.token_hex(32).encode())
        return self.run.read_text()


def job_settings(experiment: Experiment, name: str, clients: int, run: str, form: str) -> JobSettings:
    """What clients receive: of the server's own data only its form, and no paths or trackers."""
    data = replace(experiment.data, root=None)  # each side has its own data root
    if experiment.flower.clients:
        data = DataTable(name=experiment.data.name, augment=experiment.data.augment)
    sent = replace(experiment, data=data, model=_sent_model(experiment.model), track=TrackTable())
    return {
        "name": name,
        "experiment": write_toml(sent.tables()),
        "clients": clients,
        "run": run,
        "form": form,
    }


def _sent_model(table: ModelTable) -> ModelTable:
    """Clients need the weights only where some are frozen: others come with every message. Of the path only the name is sent."""
    frozen = table.freeze or table.head == "etf"
    return replace(table, weights=Path(table.weights).name if table.weights and frozen else None)


def check_name(name: str) -> str:
    if not CLIENT_NAME.fullmatch(name):
        raise ConfigError(
            f"a client name must be up to 64 letters, digits, dots, hyphens and underscores, not {short(name)}"
        )
    return name
