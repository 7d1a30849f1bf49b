"""A client at work: one process that stays, with its data open, and answers message after message.

It runs what is installed on this machine. A run's app is never fetched and never opened; a run of another app is refused.
"""

from __future__ import annotations

import logging
import secrets
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from pathlib import Path

import httpx
from flwr.app import Error, Message

from counterpoise.flower import client, messages
from counterpoise.flower.adapter import APP, PLACE_HEADER, VERSION_HEADER
from counterpoise.flower.client import ClientContext
from counterpoise.flower.deployment import Endpoint
from counterpoise.flower.job import ClientFile
from counterpoise.flower.refusal import CLIENT_FAILED
from counterpoise.flower.wire import HEARTBEAT, RequestRefused, Wire, read_key
from counterpoise.flower.workplaces import open_context
from counterpoise.system.lock import locked
from counterpoise.version import __version__

LOG = logging.getLogger("counterpoise")
PAUSE = 3.0  # seconds before a client that was turned away tries again
UNKNOWN = 401  # status: the server knows no such node, or no longer
HANDLERS: dict[str, client.Handler] = {
    messages.HELLO: client.say_hello,
    messages.TRAIN: client.train,
    messages.MEASURE: client.measure_models,
}

Say = Callable[[str], None]


@dataclass
class Resident:
    """What a client keeps in its process: the run it takes part in, and its context there."""

    client: ClientFile
    say: Say
    run: int = 0
    app: str = ""
    _context: ClientContext | None = field(default=None, repr=False)
    _settings: dict[str, object] = field(default_factory=dict, repr=False)

    def answer(self, message: Message, wire: Wire) -> Message:
        if message.metadata.run_id != self.run:
            self._enter(message.metadata.run_id, wire)
        handler = HANDLERS.get(message.metadata.message_type)
        if self.app != APP or handler is None:
            return Message(Error(CLIENT_FAILED, "app"), reply_to=message)
        return client.answer(message, self._open, handler)

    def _enter(self, run: int, wire: Wire) -> None:
        """Another run: what the last one had open is closed, and data is read anew."""
        found = wire.get_run(run)
        self.run, self.app, self._settings, self._context = (
            run,
            found.fab_id,
            dict(found.override_config),
            None,
        )
        if self.app == APP:
            self.say(f"a run begins: {self._settings.get('name', 'without a name')}")
        else:
            self.say(
                f"refused app {self.app[:80]!r}: a client runs nothing but the counterpoise that is installed here"
            )

    def _open(self) -> ClientContext:
        if self._context is None:
            self._context = open_context(self._settings, self.client)
        return self._context


def join(own: ClientFile, endpoint: Endpoint, say: Say = LOG.info) -> None:
    """Take part until stopped; one process per name and state folder. A server that is not there is waited for."""
    state = Path(own.state)
    state.mkdir(parents=True, exist_ok=True, mode=0o700)
    key = None if endpoint.certs is None else read_key(endpoint.certs.private_key(own.name))
    authority = None if endpoint.certs is None else endpoint.certs.authority
    with locked(state, f"client {own.name} runs already with the state in {state}; start it once"):
        headers, last = {VERSION_HEADER: __version__, PLACE_HEADER: _place(state)}, ""
        resident = Resident(own, say)
        while True:
            wire = Wire(endpoint.address, authority, key, headers)
            try:
                wire.activate()
                say(f"connected to {endpoint.address}")
                last = ""
                with _heartbeats(wire):
                    _serve(resident, wire)
            except (RequestRefused, httpx.TransportError) as error:
                words = _explain(error, endpoint, own.name)
                if words != last:
                    say(words)
                last = words
            finally:
                with suppress(RequestRefused, httpx.TransportError):
                    wire.leave()
                wire.close()
            time.sleep(PAUSE)


def _explain(error: Exception, endpoint: Endpoint, name: str) -> str:
    if isinstance(error, RequestRefused) and error.status == UNKNOWN:
        return f"{endpoint.address} does not know client {name} by this key, or was started again; trying on"
    return f"{endpoint.address} does not let client {name} in: {error}; trying on"


def _serve(resident: Resident, wire: Wire) -> None:
    while True:
        message = wire.pull()
        if message is None:
            continue
        began = time.monotonic()
        try:
            wire.push(resident.answer(message, wire), time.monotonic() - began)
        except RequestRefused as turned:
            if turned.status == UNKNOWN:
                raise
            resident.say("the server took no answer: it had waited long enough, or the run is over")


@contextmanager
def _heartbeats(wire: Wire) -> Iterator[None]:
    """Signs of life beside the training, often enough that a few may be lost."""
    done = threading.Event()

    def beat() -> None:
        while not done.wait(HEARTBEAT / 3):
            with suppress(RequestRefused, httpx.TransportError):
                wire.heartbeat()

    threading.Thread(target=beat, daemon=True).start()
    try:
        yield
    finally:
        done.set()


def _place(state: Path) -> str:
    """A secret of this state folder: the server lets the process that knows it follow the one that ended."""
    path = state / "place"
    if not path.is_file():
        path.touch(mode=0o600)
        path.write_text(secrets.token_hex(16))
    return path.read_text()
