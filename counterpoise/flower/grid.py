"""Messages to nodes and their replies, in the process that serves the port, without polling over the network."""

from __future__ import annotations

import time
from collections.abc import Callable, Collection, Iterable, Mapping
from dataclasses import dataclass
from typing import NamedTuple, Protocol

from flwr.app import Message

from counterpoise.flower import adapter
from counterpoise.flower.hub import Hub
from counterpoise.flower.records import payload_bytes

TICK = 0.5  # seconds between two checks for nodes that are gone
MOST_REPEATS = 5  # of one message, to a client that exits each time it receives it


OnReply = Callable[[Message, float], None]  # a reply, and the seconds that it took


class NodeInfo(Protocol):
    """A node that is online."""

    node_id: int
    name: str  # under which it is registered
    registered_at: str


class Grid(Protocol):
    """The nodes of a run: which are online, and messages to them."""

    @property
    def not_admitted(self) -> Mapping[str, str]:
        """Clients that were refused when they connected, and why."""

    @property
    def late(self) -> Mapping[str, int]:
        """Number of replies of each client that came too late."""

    def listen(self, on_reply: OnReply) -> None:
        """Call this for each reply as it arrives, where the grid can know."""

    def get_nodes(self) -> Iterable[NodeInfo]: ...

    def get_node_ids(self) -> Iterable[int]: ...

    def send_and_receive(
        self, messages: Iterable[Message], *, timeout: float | None = None
    ) -> Iterable[Message]: ...


class Waiting(NamedTuple):
    """A message whose reply is awaited."""

    message: Message
    asked: float  # `time.monotonic` when it was sent
    repeats: int = 0
    head: Message | None = None  # of its reply, once the first part has arrived


@dataclass
class HubGrid:
    """A run among the nodes of a hub."""

    hub: Hub
    run: int
    _on_reply: OnReply | None = None

    def listen(self, on_reply: OnReply) -> None:
        self._on_reply = on_reply

    @property
    def not_admitted(self) -> Mapping[str, str]:
        return self.hub.not_admitted

    @property
    def late(self) -> Mapping[str, int]:
        return self.hub.late

    def get_nodes(self) -> list[NodeInfo]:
        return list(adapter.online_nodes(self.hub.link))

    def get_node_ids(self) -> list[int]:
        return [node.node_id for node in self.get_nodes()]

    def send_and_receive(self, messages: Iterable[Message], *, timeout: float | None = None) -> list[Message]:
        """The replies that came in time; a message that was lost on the way or with its node is sent again."""
        deadline = float("inf") if timeout is None else time.monotonic() + timeout
        waiting = self._post([Waiting(message, time.monotonic()) for message in messages])
        replies: list[Message] = []
        checked = 0.0
        try:
            while waiting and (left := deadline - time.monotonic()) > 0:
                # Before replies are collected: a reply that is complete by now is not lost.
                lost, active = self.hub.take_changes()
                if time.monotonic() - checked > TICK:
                    checked, active = (
                        time.monotonic(),
                        {one.message.metadata.dst_node_id for one in waiting.values()},
                    )
                replies += self._collect(waiting, active)
                self._repeat(waiting, lost)
                if waiting:
                    self.hub.wait(min(TICK, left))
        finally:
            for message_id, one in waiting.items():
                self._withdraw(message_id, one)
        return replies

    def _post(self, batch: Iterable[Waiting]) -> dict[str, Waiting]:
        posted = {}
        for one in batch:
            # A reply has about the size of its message.
            self.hub.limit = max(self.hub.limit, 8 * payload_bytes(one.message.content))
            posted[adapter.post(self.hub.link, self.run, one.message)] = one
            self.hub.wake_node(one.message.metadata.dst_node_id)
        posted.pop("", None)
        return posted

    def _collect(self, waiting: dict[str, Waiting], active: Collection[int]) -> list[Message]:
        """Complete replies of these nodes, removed from `waiting`."""
        link, found = self.hub.link, []
        here = [(key, one) for key, one in waiting.items() if one.message.metadata.dst_node_id in active]
        for message_id, one in here:
            head = one.head or adapter.begun_reply(link, self.run, message_id)
            if head is None:
                continue
            reply = adapter.whole_reply(link, self.run, head, one.message.metadata.dst_node_id)
            waiting[message_id] = one._replace(head=head)
            if reply is not None:
                self._withdraw(message_id, waiting.pop(message_id))
                if self._on_reply is not None:
                    self._on_reply(reply, time.monotonic() - one.asked)
                found.append(reply)
        return found

    def _repeat(self, waiting: dict[str, Waiting], lost: set[str]) -> None:
        for message_id in lost & waiting.keys():
            one = waiting.pop(message_id)
            self._withdraw(message_id, one)
            if one.repeats < MOST_REPEATS:
                waiting.update(
                    self._post(
                        [
                            one._replace(
                                message=adapter.renewed(one.message), repeats=one.repeats + 1, head=None
                            )
                        ]
                    )
                )

    def _withdraw(self, message_id: str, one: Waiting) -> None:
        reply_id = None if one.head is None else one.head.metadata.message_id
        adapter.withdraw(self.hub.link, message_id, reply_id)
