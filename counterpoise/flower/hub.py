"""What the open port and the run share at a server: Flower's link state, who is here, and bells that wake either side."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field

from counterpoise.flower.adapter import LinkState, link_factory, online_nodes


@dataclass
class Hub:
    """Written by the thread of the port and by that of the run."""

    link: LinkState = field(default_factory=lambda: link_factory().state())
    names: dict[int, str] = field(default_factory=dict)  # node -> client, of nodes that have a key of ours
    places: dict[int, str] = field(default_factory=dict)  # node -> the state folder that it came from
    not_admitted: dict[str, str] = field(default_factory=dict)  # client -> why it was refused at the door
    late: dict[str, int] = field(
        default_factory=dict
    )  # client -> answers that came when nobody waited any more
    closed: bool = False  # nobody is made to wait any more
    limit: int = 64 << 20  # bytes of one request
    arrived: threading.Condition = field(default_factory=threading.Condition)  # a piece of a reply, or a loss
    _delivered: dict[int, str] = field(default_factory=dict)  # node -> the message that it was handed last
    _lost: set[str] = field(default_factory=set)  # messages whose node asked for another without an answer
    _active: set[int] = field(default_factory=set)  # nodes that sent a piece of something
    _wakeups: dict[int, set[tuple[asyncio.AbstractEventLoop, asyncio.Event]]] = field(default_factory=dict)

    def online(self, node: int) -> bool:
        return any(there.node_id == node for there in online_nodes(self.link))

    def mark_delivered(self, node: int, message_id: str) -> None:
        self._delivered[node] = message_id

    def mark_unanswered(self, node: int) -> None:
        """A node answers before it asks for more: what it was handed and left unanswered did not reach it, or died with it."""
        if message_id := self._delivered.pop(node, None):
            with self.arrived:
                self._lost.add(message_id)
                self.arrived.notify_all()

    def take_changes(self) -> tuple[set[str], set[int]]:
        """Messages that must be sent again, and nodes that sent a piece of something, since this was asked last."""
        with self.arrived:
            news = self._lost, self._active
            self._lost, self._active = set(), set()
        return news

    def wait(self, seconds: float) -> None:
        """Until there is news, or so long."""
        with self.arrived:
            if not self._lost and not self._active:
                self.arrived.wait(seconds)

    def wake_run(self, node: int) -> None:
        with self.arrived:
            self._active.add(node)
            self.arrived.notify_all()

    def wake_node(self, node: int) -> None:
        """There is a message for it."""
        for loop, wakeup in list(self._wakeups.get(node, ())):
            loop.call_soon_threadsafe(wakeup.set)

    def close(self) -> None:
        self.closed = True
        for node in list(self._wakeups):
            self.wake_node(node)

    @contextmanager
    def wakeup(self, node: int) -> Iterator[asyncio.Event]:
        """Rings when there is a message for a node that waits for one."""
        entry = asyncio.get_running_loop(), asyncio.Event()
        self._wakeups.setdefault(node, set()).add(entry)
        try:
            yield entry[1]
        finally:
            self._wakeups[node].discard(entry)
