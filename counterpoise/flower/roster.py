"""Which node is which client: by our own names, never by Flower's node ids."""

from __future__ import annotations

import logging
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field

from flwr.app import Message

from counterpoise.flower.grid import Grid
from counterpoise.flower.hello import read_hello, write_hello
from counterpoise.flower.messages import HELLO, Hello
from counterpoise.flower.refusal import REASONS, Refused, error_word

LOG = logging.getLogger("counterpoise")
HELLO_TIMEOUT = 120.0  # seconds after which a silent node is asked again
PAUSE = 0.2


@dataclass
class Roster:
    """Clients by name; a name belongs to the first node that claims it, or to the one registered under it."""

    grid: Grid
    names: Sequence[str]
    expected: Callable[[Hello], None] = lambda hello: None  # refuses a hello that contradicts what is known
    named_nodes: bool = False  # nodes are registered under their client's name
    on_update: Callable[[], None] = lambda: None  # called after each look for nodes
    hellos: dict[str, Hello] = field(default_factory=dict)
    refusals: list[tuple[str, str]] = field(default_factory=list)  # who was refused, and why
    _node: dict[str, int] = field(default_factory=dict)
    _asked: dict[int, float] = field(default_factory=dict)  # refused or silent node -> when to ask again

    def gather(self, wait: float) -> list[str]:
        """Wait until every client is online; returns the names of those that are missing."""
        deadline = time.monotonic() + wait
        while self.missing() and (left := deadline - time.monotonic()) > 0:
            if not self.identify_nodes(min(left, HELLO_TIMEOUT)):
                time.sleep(min(PAUSE, left))
            self.on_update()
        return self.missing()

    def why_missing(self) -> dict[str, str]:
        """Missing clients that were refused, and why."""
        refused = {name: f"{REASONS[why]} ({why})" for name, why in self.refusals}
        known = {**refused, **self.grid.not_admitted}
        return {name: known[name] for name in self.missing() if name in known}

    def known(self) -> list[str]:
        return list(self._node)

    def missing(self) -> list[str]:
        return [name for name in self.names if name not in self._node]

    def online(self) -> dict[str, int]:
        """Clients that are online, and their nodes; a new node may replace one that is gone."""
        there = set(self.grid.get_node_ids())
        if any(self._node.get(name) not in there for name in self.names):
            self._node = {name: node for name, node in self._node.items() if node in there}
            self.identify_nodes(HELLO_TIMEOUT)
        return dict(self._node)

    def identify_nodes(self, timeout: float) -> bool:
        """Ask unknown nodes which client they are; False where there are none."""
        known = set(self._node.values())
        now = time.monotonic()
        nodes = sorted(self.grid.get_nodes(), key=lambda node: (node.registered_at, node.node_id))
        fresh = {n.node_id: n.name for n in nodes if n.node_id not in known and self._asked.get(n.node_id, 0) <= now}  # fmt: skip
        if not fresh:
            return False
        self._asked.update(dict.fromkeys(fresh, now + HELLO_TIMEOUT))
        asks = [Message(write_hello(), node, HELLO, ttl=timeout, group_id="hello") for node in fresh]
        replies = {r.metadata.src_node_id: r for r in self.grid.send_and_receive(asks, timeout=timeout)}
        for node, registered in fresh.items():
            if node in replies:
                self._admit(node, registered, replies[node])
        return True

    def _admit(self, node: int, registered: str, reply: Message) -> None:
        claimed = "a node"
        try:
            if reply.has_error():
                raise Refused(error_word(reply))
            hello = read_hello(reply.content)
            claimed = hello.client if hello.client in self.names else claimed
            if hello.client not in self.names:
                raise Refused("client")
            if hello.client in self._node or (self.named_nodes and registered != hello.client):
                raise Refused("sender")
            self.expected(hello)
        except Refused as refusal:
            known = claimed if claimed in self.names else registered or claimed
            self.refusals.append((known, refusal.reason))
            LOG.warning("client %s is refused: %s (%s)", known, REASONS[refusal.reason], refusal.reason)
            return
        self._node[hello.client] = node
        self.hellos[hello.client] = hello
        self._asked.pop(node, None)  # a restarted node has the same id, and must be asked at once
