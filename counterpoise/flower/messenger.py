"""Messages to clients that are there and their replies, with the bytes of both counted."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import TypeAlias

from flwr.app import Message, RecordDict

from counterpoise.flower.grid import Grid
from counterpoise.flower.records import payload_bytes

Heard: TypeAlias = Callable[[str, float, int], None]  # a client's name, its seconds, the bytes of its reply
GRACE = 60.0  # seconds that a message outlives its exchange, so that only the server ends one


class Messenger:
    """Asks nodes of clients by name and waits; a client that is silent or gone has no reply."""

    def __init__(self, grid: Grid, timeout: float) -> None:
        self._grid, self._timeout = grid, timeout
        self.sent_bytes, self.received_bytes = 0, 0

    def __call__(
        self,
        kind: str,
        group: str,
        contents: Mapping[str, RecordDict],
        nodes: Mapping[str, int],
        heard: Heard | None = None,
    ) -> list[Message]:
        """The replies to contents by name; `heard` is called with each as it arrives."""
        asks = [
            Message(content, nodes[name], kind, ttl=self._timeout + GRACE, group_id=group)
            for name, content in contents.items()
        ]
        names = {node: name for name, node in nodes.items()}

        def arrived(reply: Message, seconds: float) -> None:
            name = names.get(reply.metadata.src_node_id)
            if heard is not None and name is not None:
                heard(name, seconds, _bytes_of(reply))

        self._grid.listen(arrived)
        self.sent_bytes += sum(map(payload_bytes, contents.values()))
        replies = list(self._grid.send_and_receive(asks, timeout=self._timeout)) if asks else []
        self.received_bytes += sum(map(_bytes_of, replies))
        return replies


def _bytes_of(reply: Message) -> int:
    return payload_bytes(reply.content) if reply.has_content() else 0
