"""A bad network: a TCP relay on loopback that delays, resets and cuts."""

from __future__ import annotations

import contextlib
import random
import socket
import struct
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field

CHUNK = 16 * 1024
RESET = struct.pack("ii", 1, 0)  # close without farewell


@dataclass
class Relay:
    """Passes bytes on to `target`: late, slowly, with some connections reset, and for a while not at all."""

    target: int
    delay: float = 0.2
    rate: float = 1e6  # bits per second, each way of each connection
    resets: float = 0.05  # share of connections
    cut_from: float = float("inf")  # no connection passes from here on, in seconds of `time.monotonic`
    cut_until: float = 0.0
    rng: random.Random = field(default_factory=lambda: random.Random(0))
    counts: dict[str, int] = field(default_factory=lambda: {"connections": 0, "reset": 0, "cut": 0})
    server: socket.socket = field(default_factory=socket.socket)

    @property
    def port(self) -> int:
        return int(self.server.getsockname()[1])

    def cut(self, seconds: float) -> None:
        self.cut_until, self.cut_from = time.monotonic() + seconds, time.monotonic()

    def is_cut(self) -> bool:
        return self.cut_from <= time.monotonic() < self.cut_until

    def serve(self) -> None:
        with contextlib.suppress(OSError):
            while True:
                here, _ = self.server.accept()
                threading.Thread(target=self._pass_on, args=(here,), daemon=True).start()

    def _pass_on(self, here: socket.socket) -> None:
        self.counts["connections"] += 1
        reset, cut = self.rng.random() < self.resets, self.is_cut()
        if reset or cut:
            self.counts["reset" if reset else "cut"] += 1
            here.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, RESET)
            here.close()
            return
        try:
            there = socket.create_connection(("127.0.0.1", self.target))
        except OSError:
            here.close()
            return
        for source, sink in ((here, there), (there, here)):
            threading.Thread(target=self._pump, args=(source, sink), daemon=True).start()

    def _pump(self, source: socket.socket, sink: socket.socket) -> None:
        with contextlib.suppress(OSError):
            while (data := source.recv(CHUNK)) and not self.is_cut():
                time.sleep(self.delay + 8 * len(data) / self.rate)
                sink.sendall(data)
        for end in (source, sink):
            with contextlib.suppress(OSError):
                end.shutdown(socket.SHUT_RDWR)
                end.close()


@contextmanager
def relay(target: int) -> Iterator[Relay]:
    passing = Relay(target)
    passing.server.bind(("127.0.0.1", 0))
    passing.server.listen(64)
    threading.Thread(target=passing.serve, daemon=True).start()
    try:
        yield passing
    finally:
        passing.server.close()
