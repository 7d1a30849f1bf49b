"""What the server carries from round to round, what stays the same over them, and what is told of each."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, NamedTuple

from counterpoise.core.method import Method
from counterpoise.core.part import Measure
from counterpoise.core.protocol import Ask, Rejection
from counterpoise.core.secret import SecretKey
from counterpoise.core.tree import Params, Tree
from counterpoise.server.replies import Clipping
from counterpoise.server.search import Score, Traffic


@dataclass(frozen=True)
class ServerState:
    """All that the server carries from round to round."""

    params: Params
    buffers: Params
    slots: dict[str, Tree]  # part name -> server slot
    round: int = 0

    def to_tree(self) -> Tree:
        """Its tensors; the round is stored separately."""
        return {"params": self.params, "buffers": self.buffers, "slots": self.slots}

    @classmethod
    def from_tree(cls, tree: Tree, round: int) -> ServerState:
        """Serialised trees have no empty branches."""
        return cls(tree["params"], tree.get("buffers", {}), tree.get("slots", {}), round)


@dataclass(frozen=True)
class Server:
    """What stays the same over the rounds of a run: method, engine, and how models are scored."""

    method: Method
    ask: Ask
    clients: int  # of the whole federation
    score: Score | None = None
    measure: Measure | None = None
    max_influence: float | None = None
    seed: int = 0
    secret: SecretKey | None = None


class Outcome(NamedTuple):
    """What happened in a round."""

    round: int
    lr: float
    asked: int  # clients
    tasks: int  # trainings; a search asks for several per client
    replied: int  # clients, including rejected ones
    rejected: tuple[Rejection, ...]
    loss: float | None  # mean training loss of the replies used; None where the round was skipped
    bytes_down: int = 0  # to clients, including models to score, without the overhead of a transport
    bytes_up: int = 0  # from clients
    clipped: tuple[Clipping, ...] = ()  # updates that were scaled down

    @property
    def skipped(self) -> bool:
        return self.loss is None

    @property
    def unanswered(self) -> bool:
        """Whether no client replied: an outage, which may pass."""
        return self.skipped and not self.rejected

    def with_traffic(self, *more: Traffic) -> Outcome:
        down, up = sum(one.down for one in more), sum(one.up for one in more)
        return self._replace(bytes_down=self.bytes_down + down, bytes_up=self.bytes_up + up)

    def row(self) -> dict[str, Any]:
        """The round as a row of the log."""
        lists = {
            name: [entry._asdict() for entry in entries]
            for name, entries in (("rejected", self.rejected), ("clipped", self.clipped))
        }
        return {**self._asdict(), **lists, "skipped": self.skipped}
