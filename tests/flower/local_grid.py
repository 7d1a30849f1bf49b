"""A grid within the test's process: real Flower messages to real client handlers, with faults on demand."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

from federations import simulate
from flwr.app import Message
from flwr.common.serde import recorddict_from_proto, recorddict_to_proto
from flwr.proto.node_pb2 import NodeInfo
from flwr.supercore.task_identity import TaskIdentity

from counterpoise.core.method import MethodSpec
from counterpoise.engines.workplace import Workplace
from counterpoise.flower import client
from counterpoise.flower.client import Seat
from counterpoise.flower.grid import Heard
from counterpoise.flower.resident import HANDLERS
from counterpoise.flower.roster import Roster
from counterpoise.flower.server import FlowerEngine, Patience
from counterpoise.run.simulation import Simulation

FIRST_NODE = 7_000_000_000_000_000_000  # ids like Flower's: large, and in no order of ours
RUN = "0" * 64
PATIENCE = Patience()

TaskIdentity.run_id, TaskIdentity.node_id, TaskIdentity.task_id = 1, 1, 1


@dataclass
class LocalGrid:
    """Nodes answer at once; `alter` may change what comes back."""

    seats: dict[int, Seat | Callable[[], Seat]]  # or how a seat is taken, which may fail
    alter: Callable[[list[Message]], list[Message]] = lambda replies: replies
    before: Callable[[Message], None] = lambda message: None
    names: dict[int, str] = field(default_factory=dict)
    canned: list[Message] | None = None  # what comes back instead of asking anybody
    sent: list[Message] = field(default_factory=list)
    turned_away: dict[str, str] = field(default_factory=dict)
    late: dict[str, int] = field(default_factory=dict)

    def listen(self, heard: Heard) -> None:
        """All replies of a round come together here."""

    def get_nodes(self) -> list[NodeInfo]:
        return [NodeInfo(node_id=n, registered_at=str(n), name=self.names.get(n)) for n in self.seats]

    def get_node_ids(self) -> list[int]:
        return list(self.seats)

    def send_and_receive(self, asks: Iterable[Message], *, timeout: float | None = None) -> list[Message]:
        asks = list(asks)
        self.sent += asks
        if self.canned is not None:
            return self.canned
        return self.alter([self.deliver(ask) for ask in reversed(asks)])  # arrival order is not ours

    def deliver(self, ask: Message) -> Message:
        """One message there and back, through Flower's wire format."""
        self.before(ask)
        seat, handler = self.seats[ask.metadata.dst_node_id], HANDLERS[ask.metadata.message_type]
        ask.content = recorddict_from_proto(recorddict_to_proto(ask.content))
        reply = client.answer(ask, seat if callable(seat) else lambda: seat, handler)
        reply.metadata.__dict__["_src_node_id"] = ask.metadata.dst_node_id
        if reply.has_content():
            reply.content = recorddict_from_proto(recorddict_to_proto(reply.content))
        return reply


def seats_of(work: Workplace, state: Path) -> dict[int, Seat | Callable[[], Seat]]:
    """A seat a client, on nodes numbered against the clients' order."""
    clients = range(len(work.federation.clients))
    return {FIRST_NODE - k: Seat(str(k), k, work, state / f"node-{k}") for k in clients}


def over_flower(
    spec: MethodSpec, state: Path, patience: Patience = PATIENCE, **settings: Any
) -> tuple[Simulation, LocalGrid]:
    """The same run as `simulate`, its clients asked by messages; each side has a workplace of its own."""
    sim, grid = simulate(spec, **settings), LocalGrid(seats_of(simulate(spec, **settings).work, state))
    return replace(sim, engine=join(grid, sim.work, patience)), grid


def join(grid: LocalGrid, work: Workplace, patience: Patience = PATIENCE) -> FlowerEngine:
    names: Sequence[str] = [str(k) for k in range(len(work.federation.clients))]
    roster = Roster(grid, names, len(work.federation.classes))
    assert roster.gather(5.0) == []
    return FlowerEngine(work, grid, roster, RUN, patience)
