"""The client's end of Flower's fleet protocol: signed requests that are retried until the server answers."""

from __future__ import annotations

import logging
import time
from collections.abc import Callable, Mapping
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any, NamedTuple, TypeVar, cast

import httpx
from cryptography.exceptions import UnsupportedAlgorithm
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.hazmat.primitives.serialization import load_ssh_private_key
from flwr.app import Message
from flwr.app.message import remove_content_from_message
from flwr.common.serde import message_from_proto, message_to_proto, run_from_proto
from flwr.proto import fleet_pb2, heartbeat_pb2, message_pb2, node_pb2, run_pb2
from flwr.supercore.inflatable.inflatable_object import (
    get_all_nested_objects,
    get_object_tree,
    iterate_object_tree,
    no_object_id_recompute,
)
from flwr.supercore.inflatable.inflatable_utils import inflate_object_from_contents
from flwr.supercore.interceptors.http.utils import add_headers
from flwr.supercore.primitives.asymmetric import generate_key_pairs, public_key_to_bytes
from flwr.supercore.protobuf.client import ProtobufCall, ProtobufRequestContext
from flwr.supercore.run import Run
from flwr.supernode.fleet_http_client import FleetHttpClient
from flwr.supernode.node_auth_http_interceptor import NodeAuthHttpInterceptor

from counterpoise.errors import ConfigError

HEARTBEAT = 30.0  # seconds; a node without one for twice that is offline
FIRST_PAUSE, LONGEST_PAUSE = 0.1, 5.0  # seconds between retries
PARALLEL = 4  # objects of a message that are transferred in parallel
TRANSIENT = {408, 425, 429, 500, 502, 503, 504}  # statuses after which a request is retried

Key = ec.EllipticCurvePrivateKey
Answer = TypeVar("Answer")


class RequestRefused(Exception):  # noqa: N818
    """A request that the server refused; its text goes to the local log only."""

    def __init__(self, status: int, text: str) -> None:
        super().__init__(f"{text} ({status})" if text else f"status {status}")
        self.status = status


class Headers(NamedTuple):
    """Adds headers to every request."""

    given: Mapping[str, str]

    def intercept(self, context: ProtobufRequestContext, call_next: ProtobufCall) -> httpx.Response:
        add_headers(context.request, dict(self.given))
        return call_next(context)


def read_key(path: Path) -> Key:
    """A client's private key, as `counterpoise flower certs` writes it."""
    try:
        key = load_ssh_private_key(path.read_bytes(), None)
    except (ValueError, UnsupportedAlgorithm, TypeError):
        key = None
    if not isinstance(key, ec.EllipticCurvePrivateKey):
        raise ConfigError(
            f"{path} is damaged or not a private key; make one with `counterpoise flower certs`"
        )
    return key


class Wire:
    """One node's requests; without a key the node generates one and registers itself (servers without TLS only)."""

    def __init__(
        self, address: str, authority: Path | None, key: Key | None, headers: Mapping[str, str]
    ) -> None:
        self._own = key is None
        private = generate_key_pairs()[0] if key is None else key
        self._public = public_key_to_bytes(private.public_key())
        signed: list[Any] = [Headers(headers), NodeAuthHttpInterceptor(private, private.public_key())]
        root = None if authority is None else str(authority)
        self._client = FleetHttpClient.from_server_address(address, authority is None, root, signed)
        self._threads = ThreadPoolExecutor(PARALLEL)
        self.node = node_pb2.Node()

    def activate(self) -> None:
        """Go online; refused where the key is unknown or another node uses it."""
        if self._own:
            self._ask(self._client.RegisterNode, fleet_pb2.RegisterNodeFleetRequest(public_key=self._public))
        request = fleet_pb2.ActivateNodeRequest(public_key=self._public, heartbeat_interval=HEARTBEAT)
        self.node = node_pb2.Node(node_id=self._ask(self._client.ActivateNode, request).node_id)

    def heartbeat(self) -> None:
        """Tell the server that this node is online."""
        request = heartbeat_pb2.SendNodeHeartbeatRequest(node=self.node, heartbeat_interval=HEARTBEAT)
        self._once(self._client.SendNodeHeartbeat, request)

    def get_run(self, run: int) -> Run:
        return run_from_proto(
            self._ask(self._client.GetRun, run_pb2.GetRunRequest(node=self.node, run_id=run)).run
        )

    def pull(self) -> Message | None:
        """The next complete message; None where none came for a while."""
        found = self._ask(self._client.PullMessages, fleet_pb2.PullMessagesRequest(node=self.node))
        if not found.messages_list:
            return None
        head = message_from_proto(found.messages_list[0])
        names = [part.object_id for part in iterate_object_tree(found.message_object_trees[0])]
        contents = dict(
            zip(names, self._threads.map(lambda name: self._object(head, name), names), strict=True)
        )
        message = cast(Message, inflate_object_from_contents(head.metadata.message_id, contents))
        message.metadata.__dict__["_message_id"] = head.metadata.message_id
        return message

    def _object(self, head: Message, name: str) -> bytes:
        request = message_pb2.PullObjectRequest(node=self.node, run_id=head.metadata.run_id, object_id=name)
        found = self._ask(self._client.PullObject, request)
        if not found.object_available:
            raise RequestRefused(404, "a part of the message is gone")
        return bytes(found.object_content)

    def push(self, reply: Message, seconds: float) -> None:
        """Send a reply; each request is retried until it succeeds or the message expires."""
        with no_object_id_recompute():
            reply.metadata.__dict__["_message_id"] = reply.object_id
            objects, tree = get_all_nested_objects(reply), get_object_tree(reply)
            head = message_to_proto(remove_content_from_message(reply))
            request = fleet_pb2.PushMessagesRequest(
                node=self.node, messages_list=[head], message_object_trees=[tree], clientapp_runtime_list=[seconds]
            )  # fmt: skip
            until = time.time() + float(reply.metadata.ttl)
            wanted = self._ask(self._client.PushMessages, request, until)
            parts = {name: objects[name].deflate() for name in wanted.objects_to_push}

        def send(name: str) -> None:
            part = message_pb2.PushObjectRequest(
                node=self.node,
                run_id=reply.metadata.run_id,
                object_id=name,
                object_content=parts[name],
                session_id=wanted.session_id,
            )
            self._ask(self._client.PushObject, part, until)

        list(self._threads.map(send, parts))

    def leave(self) -> None:
        """Go offline at once, so that no round waits for this node."""
        if self.node.node_id:
            self._once(
                self._client.DeactivateNode, fleet_pb2.DeactivateNodeRequest(node_id=self.node.node_id)
            )

    def close(self) -> None:
        self._threads.shutdown(wait=False, cancel_futures=True)
        self._client.close()

    def _ask(self, call: Callable[[Any], Answer], request: object, until: float = float("inf")) -> Answer:
        """Retry a request over an unreliable network; all requests are idempotent."""
        pause, noted = FIRST_PAUSE, False
        while True:
            try:
                return self._once(call, request)
            except httpx.TransportError as error:
                if time.time() + pause > until:
                    raise
                if not noted and pause > 1:
                    logging.getLogger("counterpoise").warning(
                        "no answer from the server, retrying: %s", error
                    )
                    noted = True
            time.sleep(pause)
            pause = min(2 * pause, LONGEST_PAUSE)

    def _once(self, call: Callable[[Any], Answer], request: object) -> Answer:
        try:
            return call(request)
        except httpx.HTTPStatusError as error:
            if error.response.status_code in TRANSIENT:
                raise httpx.TransportError(f"status {error.response.status_code}") from None
            raise RequestRefused(error.response.status_code, error.response.text[:200]) from None
