"""A long-running client process, with its data loaded, that answers message after message.

It runs only the installed program. Apps are never downloaded; a run of another app is refused.
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
from counterpoise.flower.sums import SUM
from counterpoise.flower.wire import HEARTBEAT, RequestRefused, Wire, read_key
from counterpoise.flower.workplaces import open_context
from counterpoise.system.lock import locked
from counterpoise.version import __version__

LOG = logging.getLogger("counterpoise")
PAUSE = 3.0  # seconds before a refused client tries again
UNKNOWN = 401  # status: the server does not know this node
HANDLERS: dict[str, client.Handler] = {
    messages.HELLO: client.say_hello,
    messages.TRAIN: client.train,
    messages.MEASURE: client.measure_models,
    SUM: client.add_up,
}

Say = Callable[[str], None]


@dataclass
class Resident:
    """State of a client process: the run it takes part in, and its context."""

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
        """Switch to another run: the context is dropped, and data is read again."""
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
                f"refused app {self.app[:80]!r}: a client runs only the counterpoise that is installed here"
            )

    def _open(self) -> ClientContext:
        if self._context is None:
            self._context = open_context(self._settings, self.client)
        return self._context


def join(own: ClientFile, endpoint: Endpoint, say: Say = LOG.info) -> None:
    """Take part until stopped, one process per name and state folder; wait for a server that is not up."""
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
        return f"{endpoint.address} does not know client {name} by this key, or was restarted; retrying"
    return f"{endpoint.address} does not admit client {name}: {error}; retrying"


def _serve(resident: Resident, wire: Wire) -> None:
    while True:
        message = wire.pull()
        if message is None:
            continue
        began = time.monotonic()
        try:
            wire.push(resident.answer(message, wire), time.monotonic() - began)
        except RequestRefused as refused:
            if refused.status == UNKNOWN:
                raise
            resident.say("the server refused the reply: it came too late, or the run is over")


@contextmanager
def _heartbeats(wire: Wire) -> Iterator[None]:
    """Send heartbeats as long as the client takes part, often enough that a few may be lost."""
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
    """A secret of this state folder: a process that knows it may replace the one that ended."""
    path = state / "place"
    if not path.is_file():
        path.touch(mode=0o600)
        path.write_text(secrets.token_hex(16))
    return path.read_text()
