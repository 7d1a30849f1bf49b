"""Clients and a server of a sum within the test's process, with everything that passes between them on record."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field

import numpy as np
from numpy.typing import NDArray

from counterpoise.engines.sums import COUNTS, sum_numbers
from counterpoise.privacy.frame import Head, pack, unpack
from counterpoise.privacy.identity import Identity, Unsigned
from counterpoise.privacy.layout import Layout
from counterpoise.privacy.modes import client_side, server_side
from counterpoise.privacy.protocol import KeyGoneError, SecureSum, SumClient, Summed, add_up
from counterpoise.privacy.settings import PrivacySettings

RUN = "0" * 64
Numbers = NDArray[np.int64]
Alter = Callable[[Head, list[bytes]], list[bytes]]


class Recorder(dict[str, bytes]):
    """What a client keeps, and every key that it ever kept."""

    def __init__(self, keys: list[bytes]) -> None:
        super().__init__()
        self.keys_made = keys

    def __setitem__(self, place: str, value: bytes) -> None:
        if place.startswith("key-"):
            self.keys_made.append(value)
        super().__setitem__(place, value)


@dataclass
class Parties:
    """A federation of which each client has its own numbers."""

    numbers: Mapping[str, Numbers]
    settings: PrivacySettings = field(default_factory=PrivacySettings)
    run: str = RUN
    identities: Mapping[str, Identity] = field(default_factory=dict)
    answered: Callable[[str, str], bool] = lambda name, phase: True  # whether a client's answer arrives
    on_the_way: Alter = lambda head, pieces: pieces  # what becomes of an answer
    to_the_client: Alter = lambda head, pieces: pieces  # and of a question
    seen: list[bytes] = field(default_factory=list)  # all that passes the server
    keys: list[bytes] = field(default_factory=list)  # secrets of clients

    def __post_init__(self) -> None:
        self.server: SecureSum = server_side(self.settings)
        self.clients: dict[str, SumClient] = {name: self._client(name) for name in self.numbers}

    def _client(self, name: str) -> SumClient:
        return client_side(
            self.settings,
            name=name,
            run=self.run,
            values=lambda what: self.numbers[name],
            identity=self.identities.get(name, Unsigned()),
            kept=Recorder(self.keys),
        )

    def exchange(self, asks: Mapping[str, bytes]) -> dict[str, bytes]:
        return {name: answer for name, ask in asks.items() if (answer := self._there_and_back(name, ask))}

    def _there_and_back(self, name: str, ask: bytes) -> bytes:
        head, _ = unpack(ask)
        try:
            answer = self.clients[name].answer(_changed(ask, self.to_the_client))
        except KeyGoneError:
            return b""
        self.seen += [ask, answer]
        return _changed(answer, self.on_the_way) if self.answered(name, head.phase) else b""

    def total(self) -> Summed:
        return add_up(self.server, list(self.numbers), self.size, self.exchange, self.run, COUNTS)

    def histogram(self) -> Numbers:
        """The sum as engines ask for it: the clients' samples are known."""
        layout = Layout(((f"{COUNTS}/counts", (self.size,)),))
        samples = {name: int(counts.sum()) for name, counts in self.numbers.items()}
        total, _ = sum_numbers(self.settings, COUNTS, layout, samples, self.exchange, self.run)
        found: Numbers = total[COUNTS]["counts"].numpy()
        return found

    @property
    def size(self) -> int:
        return len(next(iter(self.numbers.values())))

    def truth(self, names: Sequence[str] | None = None) -> Numbers:
        return np.sum([self.numbers[name] for name in names or self.numbers], axis=0, dtype=np.int64)


def _changed(message: bytes, alter: Alter) -> bytes:
    head, pieces = unpack(message)
    return pack(head, alter(head, pieces))


def federation(clients: int, classes: int, seed: int, most: int = 5000) -> dict[str, Numbers]:
    """Class counts with holes, as a skewed partition has them."""
    rng = np.random.default_rng(seed)
    counts = rng.integers(0, most, (clients, classes)) * (rng.random((clients, classes)) < 0.6)
    return {f"c{k}": row.astype(np.int64) for k, row in enumerate(counts)}


def random_federation(seed: int, fewest: int = 3, most: int = 100) -> dict[str, Numbers]:
    rng = np.random.default_rng(seed)
    return federation(int(rng.integers(fewest, most + 1)), int(rng.integers(2, 1001)), seed)
