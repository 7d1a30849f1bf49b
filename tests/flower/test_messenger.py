"""Bytes of all that is exchanged are counted, and replies are told of as they arrive."""

from __future__ import annotations

from collections.abc import Iterable

from flwr.app import Error, Message

from counterpoise.flower.adapter import identify
from counterpoise.flower.grid import OnReply
from counterpoise.flower.messenger import GRACE, Messenger
from counterpoise.flower.records import payload_bytes
from counterpoise.flower.sums import write_sum

NODES = {"a": 7, "b": 8, "c": 9}
CONTENTS = {name: write_sum(name.encode() * size) for name, size in (("a", 10), ("b", 20), ("c", 30))}


class Answering:
    """A grid of three nodes: one echoes, one fails, one is silent."""

    def __init__(self) -> None:
        self.asked: list[Message] = []
        self._tell: OnReply = lambda reply, seconds: None

    def listen(self, on_reply: OnReply) -> None:
        self._tell = on_reply

    def send_and_receive(self, messages: Iterable[Message], *, timeout: float | None = None) -> list[Message]:
        self.asked = list(messages)
        echo, failure = self.asked[0], self.asked[1]
        replies = [
            Message(echo.content, reply_to=echo),
            Message(Error(code=1, reason="broke"), reply_to=failure),
        ]
        for reply in replies:
            self._tell(reply, 0.5)
        return replies


def test_bytes_are_counted_both_ways_and_replies_told_by_name() -> None:
    identify(run=1, task=1)
    grid, told = Answering(), list[tuple[str, float, int]]()
    messenger = Messenger(grid, timeout=5.0)  # type: ignore[arg-type]

    replies = messenger("query.x", "3", CONTENTS, NODES, lambda *one: told.append(one))

    assert len(replies) == 2
    assert [message.metadata.dst_node_id for message in grid.asked] == [7, 8, 9]
    assert {message.metadata.ttl for message in grid.asked} == {5.0 + GRACE}
    assert messenger.sent_bytes == sum(map(payload_bytes, CONTENTS.values()))
    assert messenger.received_bytes == payload_bytes(CONTENTS["a"])
    assert told == [("a", 0.5, payload_bytes(CONTENTS["a"])), ("b", 0.5, 0)]


def test_nobody_is_asked_where_nobody_is_there() -> None:
    grid = Answering()
    messenger = Messenger(grid, timeout=5.0)  # type: ignore[arg-type]

    assert messenger("query.x", "3", {}, {}) == []
    assert (grid.asked, messenger.sent_bytes, messenger.received_bytes) == ([], 0, 0)
