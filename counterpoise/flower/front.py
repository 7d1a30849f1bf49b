"""The one open port: Flower's fleet protocol for nodes with a known key, and nothing else.

Flower's control and runtime APIs, which start apps and hand out tasks, are not served at all. A request body is read
only after its signature was checked.
"""

from __future__ import annotations

import asyncio
import socket
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any

import uvicorn
from google.protobuf.message import DecodeError
from starlette.applications import Starlette
from starlette.concurrency import run_in_threadpool
from starlette.requests import ClientDisconnect, Request
from starlette.responses import PlainTextResponse, Response
from starlette.routing import Route as Path

from counterpoise.errors import ConfigError, RunError
from counterpoise.flower import adapter
from counterpoise.flower.adapter import (
    PLACE_HEADER,
    REGISTER,
    ROUTES,
    VERSION_HEADER,
    FlowerError,
    Route,
)
from counterpoise.flower.deployment import Endpoint, server_trust
from counterpoise.flower.hub import Hub
from counterpoise.version import __version__

LONG_POLL = 10.0  # seconds that a pull request waits for a message
STARTUP = 30.0  # seconds in which the port must be open
SHUTDOWN = 3  # seconds for open requests when the port closes
PROTOBUF = "application/protobuf"


class Denied(Exception):  # noqa: N818
    """A refused request: the status and the text that an unauthenticated caller may read."""

    def __init__(self, status: int, words: str = "") -> None:
        super().__init__(words)
        self.status = status


@dataclass(frozen=True)
class Front:
    """Answers the nodes of a hub; `register` admits nodes that generate their own keys."""

    hub: Hub
    register: bool = False

    def app(self) -> Starlette:
        return Starlette(routes=[Path(adapter.PATH + "{name}", self.answer, methods=["POST"])])

    async def answer(self, request: Request) -> Response:
        try:
            route = self._route(request.path_params["name"])
            find = self.hub.link.get_node_id_by_public_key
            key = await run_in_threadpool(
                adapter.signing_key, request.headers, lambda key: route is REGISTER or find(key) is not None
            )
            if key is None:
                raise Denied(401)
            asked, node = await self._read(request, route), find(key) or 0
            self._check_sender(asked, key, node)
            reply = await self._handle(request, route, asked, node)
        except Denied as denied:
            return PlainTextResponse(str(denied), denied.status)
        except ClientDisconnect:
            return PlainTextResponse("", 400)  # the client is gone
        except FlowerError:
            return PlainTextResponse("", 409)  # Flower's reasons go to the local log only
        return Response(reply.SerializeToString(), media_type=PROTOBUF)

    def _route(self, name: str) -> Route:
        route = REGISTER if self.register and name == "register-node" else ROUTES.get(name)
        if route is None:
            raise Denied(404)
        return route

    async def _read(self, request: Request, route: Route) -> Any:
        body = bytearray()
        async for piece in request.stream():
            body += piece
            if len(body) > self.hub.limit:
                raise Denied(413)
        try:
            return route.request.FromString(bytes(body))
        except DecodeError:
            raise Denied(400) from None

    def _check_sender(self, asked: Any, key: bytes, node: int) -> None:
        """A node may act only as itself, in the request and in the messages that it sends."""
        if hasattr(asked, "public_key"):
            right = asked.public_key == key
        else:
            right = adapter.claimed_node(asked) == node
        sent = getattr(asked, "messages_list", ())
        if not right or any(message.metadata.src_node_id != node for message in sent):
            raise Denied(401)

    async def _handle(self, request: Request, route: Route, asked: Any, node: int) -> Any:
        hub = self.hub
        if route is ROUTES["activate-node"] and self._admit(request, node):
            return adapter.renew(hub.link, asked, node)
        if route is ROUTES["pull-messages"]:
            return await self._pull(request, asked, node)
        if route is ROUTES["push-messages"]:
            self._check_awaited(asked, node)
        reply = await run_in_threadpool(route.handle, asked, hub.link)
        if route in (ROUTES["push-messages"], ROUTES["push-object"], ROUTES["deactivate-node"]):
            hub.wake_run(node)
        return reply

    def _check_awaited(self, asked: Any, node: int) -> None:
        """Refuse replies that the run no longer waits for, and count them as late."""
        for message in asked.messages_list:
            if not adapter.awaited(self.hub.link, message.metadata, node):
                name = self.hub.names.get(node, "a client")
                self.hub.late[name] = self.hub.late.get(name, 0) + 1
                raise Denied(409, "nobody waits for this answer")

    def _admit(self, request: Request, node: int) -> bool:
        """One node per client; a restarted one with the same state folder takes over at once.

        Returns whether it takes over: it is never marked offline in between, which would end its round.
        """
        hub, version = self.hub, request.headers.get(VERSION_HEADER, "")[:40]
        name = hub.names.get(node, "a client")
        if version != __version__:
            hub.not_admitted[name] = f"it has version {version or 'unknown'} and the server {__version__}"
            raise Denied(
                409, f"this client has version {version}, the server {__version__}; both need the same"
            )
        place = request.headers.get(PLACE_HEADER, "")[:80]
        online = hub.online(node)
        if online and place != hub.places.get(node):
            raise Denied(409, "another node speaks for this client; it must end first")
        hub.places[node] = place
        hub.not_admitted.pop(name, None)
        return online

    async def _pull(self, request: Request, asked: Any, node: int) -> Any:
        """Long polling: the next message, as soon as there is one."""
        hub, until = self.hub, time.monotonic() + LONG_POLL
        hub.mark_unanswered(node)
        while True:
            with hub.wakeup(node) as wakeup:
                reply = await run_in_threadpool(ROUTES["pull-messages"].handle, asked, hub.link)
                for message in reply.messages_list:
                    hub.mark_delivered(node, message.metadata.message_id)
                left = until - time.monotonic()
                if reply.messages_list or left <= 0 or hub.closed or await request.is_disconnected():
                    return reply
                try:
                    await asyncio.wait_for(wakeup.wait(), left)
                except TimeoutError:
                    return reply


@contextmanager
def listening(hub: Hub, endpoint: Endpoint) -> Iterator[Endpoint]:
    """The port, open while this block runs; yields its endpoint."""
    family = socket.AF_INET6 if ":" in endpoint.host else socket.AF_INET
    trust: dict[str, Any] = {} if endpoint.certs is None else server_trust(endpoint.certs)
    try:
        listener = socket.create_server((endpoint.host, endpoint.port), family=family)
    except OSError as error:
        raise ConfigError(
            f"cannot listen on {endpoint.address} ({error.strerror}); needs an address of this machine and a free port"
        ) from None
    config = uvicorn.Config(
        Front(hub, register=endpoint.certs is None).app(),
        log_config=None, access_log=False, lifespan="off", ws="none", server_header=False, timeout_keep_alive=60,
        timeout_graceful_shutdown=SHUTDOWN, **trust
    )  # fmt: skip
    server = uvicorn.Server(config)
    thread = threading.Thread(target=server.run, args=([listener],), daemon=True)
    thread.start()
    try:
        _await_start(server, thread)
        yield endpoint._replace(port=listener.getsockname()[1])
    finally:
        hub.close()
        server.should_exit = True
        thread.join(2 * SHUTDOWN)
        listener.close()


def _await_start(server: uvicorn.Server, thread: threading.Thread) -> None:
    deadline = time.monotonic() + STARTUP
    while not server.started:
        if not thread.is_alive() or time.monotonic() > deadline:
            raise RunError("the port could not be opened: are the server's certificate and key damaged?")
        time.sleep(0.01)
