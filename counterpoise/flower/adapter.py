"""What the server uses of Flower's internals; with `wire` and `simulated` all that changes when the pinned version does.

Messages, node keys, link state and the fleet protocol are Flower's. Its SuperLink and SuperNode are not used: the one
serves control and runtime APIs on the port of the fleet, the other starts a process per message.
"""

from __future__ import annotations

import binascii
import datetime
from base64 import b64decode
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any, NamedTuple, cast

from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.hazmat.primitives.serialization import load_ssh_public_key
from flwr.app import Error, Message, RecordDict
from flwr.app.message import make_message, remove_content_from_message
from flwr.common.constant import (
    NOOP_ACCOUNT_NAME,
    NOOP_FLWR_AID,
    SUPERLINK_NODE_ID,
    SYSTEM_TIME_TOLERANCE,
    TIMESTAMP_HEADER,
    TIMESTAMP_TOLERANCE,
)
from flwr.common.serde import recorddict_from_proto, recorddict_to_proto
from flwr.proto import fleet_pb2, heartbeat_pb2, message_pb2, node_pb2, run_pb2
from flwr.server.superlink.linkstate import LinkState as LinkState
from flwr.server.superlink.linkstate import LinkStateFactory
from flwr.supercore.constant import (
    FLEET_HTTP_PUBLIC_KEY_HEADER,
    FLEET_HTTP_SIGNATURE_HEADER,
    FLWR_IN_MEMORY_DB_NAME,
    NOOP_FEDERATION_ID,
    NodeStatus,
    TaskType,
)
from flwr.supercore.date import now
from flwr.supercore.error import FlowerError as FlowerError
from flwr.supercore.inflatable.inflatable_object import (
    get_all_nested_objects,
    get_object_tree,
    iterate_object_tree,
    no_object_id_recompute,
)
from flwr.supercore.inflatable.inflatable_utils import inflate_object_from_contents
from flwr.supercore.object_store import NoObjectInStoreError, ObjectStoreFactory
from flwr.supercore.primitives.asymmetric import (
    bytes_to_public_key,
    public_key_to_bytes,
    verify_signature,
)
from flwr.supercore.task_identity import TaskIdentity
from flwr.superlink.federation import NoOpFederationManager
from flwr.superlink.servicer.fleet import fleet_handlers

UNREADABLE = 99  # our code for a reply that cannot be parsed
BROKEN_OFF = 98  # and for one whose node is gone before all of it arrived
APP = "counterpoise/run"  # app name of a run; clients refuse any other
PATH = "/v1/fleet/"
VERSION_HEADER = "counterpoise-version"
PLACE_HEADER = "counterpoise-place"  # proves that a node has the state folder of the one it replaces

Handler = Callable[[Any, LinkState], Any]


class Route(NamedTuple):
    """One request of the fleet protocol."""

    request: type[Any]
    handle: Handler


ROUTES: Mapping[str, Route] = {
    "activate-node": Route(fleet_pb2.ActivateNodeRequest, fleet_handlers.activate_node),
    "deactivate-node": Route(fleet_pb2.DeactivateNodeRequest, fleet_handlers.deactivate_node),
    "send-node-heartbeat": Route(heartbeat_pb2.SendNodeHeartbeatRequest, fleet_handlers.send_node_heartbeat),
    "get-run": Route(run_pb2.GetRunRequest, fleet_handlers.get_run),
    "pull-messages": Route(
        fleet_pb2.PullMessagesRequest,
        lambda request, link: fleet_handlers.pull_messages(request, link, link.object_store),
    ),
    "pull-object": Route(message_pb2.PullObjectRequest, fleet_handlers.pull_object),
    "push-messages": Route(fleet_pb2.PushMessagesRequest, fleet_handlers.push_messages),
    "push-object": Route(message_pb2.PushObjectRequest, fleet_handlers.push_object),
}
# Only without certificates, on loopback, where nodes generate their own keys.
REGISTER = Route(
    fleet_pb2.RegisterNodeFleetRequest,
    lambda request, link: fleet_handlers.register_node(request, link, enable_supernode_auth=False),
)


def link_factory() -> LinkStateFactory:
    """Flower's link state in the memory of this process, neither on disk nor reachable from outside."""
    return LinkStateFactory(FLWR_IN_MEMORY_DB_NAME, NoOpFederationManager(), ObjectStoreFactory())


def register(link: LinkState, public_key: Path, name: str) -> int:
    """Admit the node with this key, under this name only."""
    key = load_ssh_public_key(public_key.read_bytes())
    if not isinstance(key, ec.EllipticCurvePublicKey):
        raise ValueError("a key on an elliptic curve is needed")
    return link.create_node(NOOP_FLWR_AID, NOOP_ACCOUNT_NAME, public_key_to_bytes(key), 0, name=name)


def open_run(link: LinkState, settings: Mapping[str, Any]) -> int:
    """Create a running run with the settings that clients read."""
    kind = TaskType.SERVER_APP
    run = link.create_run(APP, None, None, dict(settings), NOOP_FEDERATION_ID, None, NOOP_FLWR_AID, kind)
    task = cast(int, link.get_run_info(run_ids=[run])[0].primary_task_id)
    link.claim_task(task)
    link.activate_task(task)
    # The task is this process and needs no token; an expired one would end the run in a long round.
    link.task_token_store.pop(task)  # type: ignore[attr-defined]
    identify(run, task)
    return run


def identify(run: int, task: int) -> None:
    """Say whose messages this process makes; without it Flower makes none."""
    TaskIdentity.run_id, TaskIdentity.node_id, TaskIdentity.task_id = run, SUPERLINK_NODE_ID, task


def sent_and_received(content: RecordDict) -> RecordDict:
    """What arrives of a message's content: the same, by way of Flower's wire format."""
    return recorddict_from_proto(recorddict_to_proto(content))


def online_nodes(link: LinkState) -> list[node_pb2.NodeInfo]:
    return list(link.get_node_info(statuses=[NodeStatus.ONLINE]))


def is_online(link: LinkState, node: int) -> bool:
    return bool(link.get_node_info(node_ids=[node], statuses=[NodeStatus.ONLINE]))


def renew(link: LinkState, asked: Any, node: int) -> Any:
    """Accept a node again that is already online."""
    link.acknowledge_node_heartbeat(node, asked.heartbeat_interval)
    return fleet_pb2.ActivateNodeResponse(node_id=node)


def signing_key(headers: Mapping[str, str], known: Callable[[bytes], bool]) -> bytes | None:
    """The known public key that signed this request recently, or None."""
    try:
        key = b64decode(headers[FLEET_HTTP_PUBLIC_KEY_HEADER], validate=True)
        if not known(key):
            return None
        signature = b64decode(headers[FLEET_HTTP_SIGNATURE_HEADER], validate=True)
        signed_at = headers[TIMESTAMP_HEADER]
        age = (now() - datetime.datetime.fromisoformat(signed_at)).total_seconds()
        fresh = -SYSTEM_TIME_TOLERANCE < age < TIMESTAMP_TOLERANCE + SYSTEM_TIME_TOLERANCE
        genuine = fresh and verify_signature(bytes_to_public_key(key), signed_at.encode("ascii"), signature)
    except (KeyError, ValueError, TypeError, AttributeError, binascii.Error):
        return None
    return key if genuine else None


def claimed_node(request: Any) -> int:
    """The node that a request says it comes from."""
    return int(request.node.node_id if hasattr(request, "node") else request.node_id)


def post(link: LinkState, run: int, message: Message) -> str:
    """Queue a message for its node; returns its id, empty where the node is unknown."""
    with no_object_id_recompute():
        message.metadata.__dict__["_message_id"] = message.object_id
        objects, session = get_all_nested_objects(message), link.start_session(run)
        head = remove_content_from_message(message)
        stored, missing = link.store_message_and_object_tree(head, get_object_tree(message), session)
        for name in missing:
            link.store_object(run, session, name, objects[name].deflate())
    return str(message.metadata.message_id) if stored else ""


def renewed(message: Message) -> Message:
    """The same message under a new id, for the time that is left."""
    asked, left = message.metadata, message.metadata.created_at + message.metadata.ttl - now().timestamp()
    return Message(
        message.content, asked.dst_node_id, asked.message_type, ttl=max(left, 1.0), group_id=asked.group_id
    )


def awaited(link: LinkState, reply: Any, node: int) -> bool:
    """Whether this replies to a message that was sent to this node and is still waiting for its reply."""
    asked = link.message_ins_store.get(reply.reply_to_message_id)  # type: ignore[attr-defined]
    return asked is not None and asked.metadata.dst_node_id == node


def begun_reply(link: LinkState, run: int, message_id: str) -> Message | None:
    """The head of the reply to a message, once its first part has arrived; an error where its node is gone."""
    return next(iter(link.get_message_res({message_id}, run)), None)


def whole_reply(link: LinkState, run: int, head: Message, node: int) -> Message | None:
    """The complete reply of this node; None while parts are missing, an error where they will not come."""
    if head.metadata.src_node_id != node:
        return head  # Flower's own error: the node is gone
    try:
        tree = link.object_store.get_object_tree(head.metadata.message_id)
    except NoObjectInStoreError:  # its time is over, and Flower has dropped what had arrived
        return _failed(head, BROKEN_OFF)
    contents = {part.object_id: link.get_object(run, part.object_id) for part in iterate_object_tree(tree)}
    if not all(contents.values()):
        # With the head here, Flower itself no longer says that the node is gone.
        return None if is_online(link, node) else _failed(head, BROKEN_OFF)
    try:
        reply = cast(Message, inflate_object_from_contents(head.metadata.message_id, cast(Any, contents)))
        reply.metadata.__dict__["_src_node_id"] = node  # whatever the reply claims
    except Exception:  # untrusted bytes
        return _failed(head, UNREADABLE)
    return reply


def _failed(head: Message, code: int) -> Message:
    return make_message(metadata=head.metadata, error=Error(code, ""))


def withdraw(link: LinkState, message_id: str, reply_id: str | None) -> None:
    """Delete a message and its reply."""
    link.delete_messages({message_id})
    for name in (message_id, reply_id):
        if name:
            link.object_store.delete(name)
