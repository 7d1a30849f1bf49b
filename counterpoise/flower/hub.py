"""State shared by the open port and the run: Flower's link state, the nodes, and events that wake either side."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field

from counterpoise.flower.adapter import LinkState, is_online, link_factory


@dataclass
class Hub:
    """Shared by the thread of the port and the thread of the run."""

    link: LinkState = field(default_factory=lambda: link_factory().state())
    names: dict[int, str] = field(default_factory=dict)  # node -> client, of registered keys
    places: dict[int, str] = field(default_factory=dict)  # node -> secret of its state folder
    not_admitted: dict[str, str] = field(default_factory=dict)  # client -> why it was refused
    late: dict[str, int] = field(default_factory=dict)  # client -> replies that came too late
    closed: bool = False  # open requests return at once
    limit: int = 64 << 20  # bytes of one request
    arrived: threading.Condition = field(default_factory=threading.Condition)  # reply part, or lost message
    _delivered: dict[int, str] = field(default_factory=dict)  # node -> the last message delivered to it
    _lost: set[str] = field(default_factory=set)  # messages whose node asked for the next one
    _active: set[int] = field(default_factory=set)  # nodes that sent a part of a reply
    _wakeups: dict[int, set[tuple[asyncio.AbstractEventLoop, asyncio.Event]]] = field(default_factory=dict)

    def online(self, node: int) -> bool:
        return is_online(self.link, node)

    def mark_delivered(self, node: int, message_id: str) -> None:
        self._delivered[node] = message_id

    def mark_unanswered(self, node: int) -> None:
        """A node replies before it asks for the next message, so one left unanswered was lost on the way or with the node."""
        if message_id := self._delivered.pop(node, None):
            with self.arrived:
                self._lost.add(message_id)
                self.arrived.notify_all()

    def take_changes(self) -> tuple[set[str], set[int]]:
        """Messages to send again, and nodes that sent a part of a reply, since the last call."""
        with self.arrived:
            changes = self._lost, self._active
            self._lost, self._active = set(), set()
        return changes

    def wait(self, seconds: float) -> None:
        """Until something changed, or for so many seconds."""
        with self.arrived:
            if not self._lost and not self._active:
                self.arrived.wait(seconds)

    def wake_run(self, node: int) -> None:
        with self.arrived:
            self._active.add(node)
            self.arrived.notify_all()

    def wake_node(self, node: int) -> None:
        """Wake the pull requests of a node: there is a message for it."""
        for loop, wakeup in list(self._wakeups.get(node, ())):
            loop.call_soon_threadsafe(wakeup.set)

    def close(self) -> None:
        self.closed = True
        for node in list(self._wakeups):
            self.wake_node(node)

    @contextmanager
    def wakeup(self, node: int) -> Iterator[asyncio.Event]:
        """An event that is set when there is a message for the node."""
        entry = asyncio.get_running_loop(), asyncio.Event()
        self._wakeups.setdefault(node, set()).add(entry)
        try:
            yield entry[1]
        finally:
            self._wakeups[node].discard(entry)
