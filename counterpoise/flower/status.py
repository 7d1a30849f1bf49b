"""Clients online, replies, bytes, seconds and refusals: a file that `counterpoise flower status` shows."""

from __future__ import annotations

import json
import time
from collections.abc import Collection, Iterable, Mapping
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any

from counterpoise.errors import ConfigError
from counterpoise.flower.refusal import REASONS
from counterpoise.system.atomic import write_atomically

PAUSE = 0.5  # seconds between two writes, except for important ones


@dataclass
class ClientStatus:
    """One client as the server sees it."""

    state: str = "not here yet"  # here, at work, gone, refused
    answered: int = 0  # rounds
    missed: int = 0
    late: int = 0  # replies that came after their round
    refused: int = 0  # refused messages
    why: str = ""  # the last refusal
    bytes_down: int = 0
    bytes_up: int = 0
    seconds: float | None = None  # from the last message to its reply


@dataclass
class Status:
    """Updated by the run, and written to a file for the command."""

    path: Path
    names: Collection[str]
    rounds: int
    round: int = 0
    state: str = "waiting for clients"
    clients: dict[str, ClientStatus] = field(default_factory=dict)
    _written: float = 0.0

    def __post_init__(self) -> None:
        self.clients = {name: ClientStatus() for name in self.names}

    def update(self, here: Collection[str], refusals: Mapping[str, str]) -> None:
        """Which clients are online, and which were refused."""
        for name, client in self.clients.items():
            if name in here:
                client.state = "here" if client.state != "at work" else client.state
            elif name in refusals:
                client.state, client.why = "refused", refusals[name]
            elif client.state != "not here yet":
                client.state = "gone"
        self.write()

    def begin_round(self, round: int, sizes: Mapping[str, int]) -> None:
        """A round begins with messages of these sizes."""
        self.round, self.state = round, "at work"
        for name, size in sizes.items():
            self.clients[name].state = "at work"
            self.clients[name].bytes_down += size
        self.write(at_once=False)

    def add_reply(self, name: str, seconds: float, size: int) -> None:
        """A client's reply arrived, usable or not."""
        client = self.clients[name]
        client.state, client.seconds = "here", round(seconds, 3)
        client.bytes_up += size
        self.write(at_once=False)

    def end_round(
        self,
        asked: Iterable[str],
        answered: Collection[str],
        refused: Mapping[str, str],
        late: Mapping[str, int],
    ) -> None:
        """Who answered, who was refused and who was late."""
        for name in late.keys() & self.clients.keys():
            self.clients[name].late = late[name]
        for name in asked:
            client = self.clients[name]
            client.answered += name in answered
            client.missed += name not in answered
            if name in refused:
                client.refused += 1
                client.why = REASONS.get(refused[name], refused[name])
            elif client.state == "at work":
                client.state = "gone"
        self.write(at_once=False)

    def end(self, state: str) -> None:
        self.state = state
        self.write()

    def write(self, at_once: bool = True) -> None:
        if at_once or time.monotonic() - self._written > PAUSE:
            self._written = time.monotonic()
            body = {
                key: value for key, value in asdict(self).items() if key not in ("path", "names", "_written")
            }
            write_atomically(self.path, json.dumps({**body, "updated": time.time()}).encode())


def read_status(path: Path) -> dict[str, Any]:
    """The last status that a server wrote."""
    try:
        found = json.loads(path.read_bytes())
        clients = {str(name): ClientStatus(**fields) for name, fields in found["clients"].items()}
        return {**found, "clients": clients, "rounds": int(found["rounds"]), "round": int(found["round"])}
    except OSError:
        raise ConfigError(
            f"{path.parent.parent} holds no run over Flower: there is no {path.name} in it"
        ) from None
    except (ValueError, KeyError, TypeError, AttributeError):
        raise ConfigError(f"{path} is damaged") from None
