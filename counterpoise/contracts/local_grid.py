"""A grid within this process: real Flower messages to real client handlers, with faults on demand."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

from flwr.app import Message

from counterpoise.contracts.contract import ContractError, require_same
from counterpoise.contracts.small import run_rounds, simulate
from counterpoise.core.method import MethodSpec
from counterpoise.engines.workplace import Workplace
from counterpoise.flower import client
from counterpoise.flower.adapter import identify, sent_and_received
from counterpoise.flower.client import ClientContext
from counterpoise.flower.grid import OnReply
from counterpoise.flower.messages import TRAIN
from counterpoise.flower.resident import HANDLERS
from counterpoise.flower.roster import Roster
from counterpoise.flower.server import FlowerEngine, RoundPolicy
from counterpoise.run.simulation import Simulation

FIRST_NODE = 7_000_000_000_000_000_000  # ids like Flower's: large, and in no order of ours
RUN = "0" * 64
PATIENCE = RoundPolicy()


@dataclass
class Seat:
    """A node as Flower describes it."""

    node_id: int
    registered_at: str
    name: str


@dataclass
class LocalGrid:
    """Nodes answer at once; `alter` may change what comes back."""

    seats: dict[int, ClientContext | Callable[[], ClientContext]]  # or how a context is taken, which may fail
    alter: Callable[[list[Message]], list[Message]] = lambda replies: replies
    before: Callable[[Message], None] = lambda message: None
    names: dict[int, str] = field(default_factory=dict)
    canned: list[Message] | None = None  # what comes back instead of asking anybody to train
    sent: list[Message] = field(default_factory=list)
    not_admitted: dict[str, str] = field(default_factory=dict)
    late: dict[str, int] = field(default_factory=dict)

    def listen(self, on_reply: OnReply) -> None:
        """All replies of a round come together here."""

    def get_nodes(self) -> list[Seat]:
        return [Seat(n, str(n), self.names.get(n, "")) for n in self.seats]

    def get_node_ids(self) -> list[int]:
        return list(self.seats)

    def send_and_receive(self, asks: Iterable[Message], *, timeout: float | None = None) -> list[Message]:
        asks = list(asks)
        self.sent += asks
        if self.canned is not None and all(ask.metadata.message_type == TRAIN for ask in asks):
            return self.canned
        return self.alter([self.deliver(ask) for ask in reversed(asks)])  # arrival order is not ours

    def deliver(self, ask: Message) -> Message:
        """One message there and back, through Flower's wire format."""
        self.before(ask)
        context, handler = self.seats[ask.metadata.dst_node_id], HANDLERS[ask.metadata.message_type]
        ask.content = sent_and_received(ask.content)
        reply = client.answer(ask, context if callable(context) else lambda: context, handler)
        reply.metadata.__dict__["_src_node_id"] = ask.metadata.dst_node_id
        if reply.has_content():
            reply.content = sent_and_received(reply.content)
        return reply


def seats_of(work: Workplace, state: Path) -> dict[int, ClientContext | Callable[[], ClientContext]]:
    """A context a client, on nodes numbered against the clients' order."""
    clients = range(len(work.federation.clients))
    return {FIRST_NODE - k: ClientContext(str(k), k, work, state / f"node-{k}", run=RUN) for k in clients}


def over_flower(
    spec: MethodSpec, state: Path, policy: RoundPolicy = PATIENCE, **settings: Any
) -> tuple[Simulation, LocalGrid]:
    """The same run as `simulate`, its clients asked by messages; each side has a workplace of its own."""
    identify(run=1, task=1)
    sim, grid = simulate(spec, **settings), LocalGrid(seats_of(simulate(spec, **settings).work, state))
    return replace(sim, engine=join(grid, sim.work, policy)), grid


def join(grid: LocalGrid, work: Workplace, policy: RoundPolicy = PATIENCE) -> FlowerEngine:
    names: Sequence[str] = [str(k) for k in range(len(work.federation.clients))]
    roster = Roster(grid, names)
    if silent := roster.gather(5.0):
        raise ContractError(f"a client cannot answer before round 0: {silent[0]}")
    return FlowerEngine(work, grid, roster, RUN, policy)


def messages_equal_loop(spec: MethodSpec) -> None:
    """Clients asked by messages give the same run as clients in this process, bit for bit."""
    alone = simulate(spec)
    expected = run_rounds(alone)
    with TemporaryDirectory() as folder:
        remote, _ = over_flower(spec, Path(folder))
        found = run_rounds(remote)
        require_same(
            found.to_tree(), expected.to_tree(), "asked over Flower and in this process, clients train apart"
        )
        if sorted(remote.engine.memory) != sorted(alone.engine.memory):
            raise ContractError("asked over Flower and in this process, other clients keep memory")
