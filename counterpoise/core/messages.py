"""What travels between a server and its clients: a task, what is sent with it, and what comes back."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import NamedTuple, TypeAlias

from torch import Tensor

from counterpoise.core.tree import Params, Tree, bytes_of, mix, rows


@dataclass(frozen=True)
class Task:
    """The unit of work: one client under one setting."""

    client: int
    knobs: Mapping[str, float] = field(default_factory=dict)


Memory: TypeAlias = dict[str, Tree]  # part name -> what a client keeps for it between rounds


class Broadcast(NamedTuple):
    """What the server sends to every client of a round."""

    round: int
    lr: float
    params: Params
    buffers: Params
    shared: dict[str, Tree]  # part name -> what it sends

    def to_tree(self) -> Tree:
        """Its tensors; round and learning rate are sent separately."""
        return {"params": self.params, "buffers": self.buffers, "shared": self.shared}

    @classmethod
    def from_tree(cls, round: int, lr: float, tree: Tree) -> Broadcast:
        """Serialised trees have no empty branches."""
        return cls(round, lr, tree["params"], tree.get("buffers", {}), tree.get("shared", {}))

    def bytes(self) -> int:
        """Size of its tensors."""
        return bytes_of(self.to_tree())


class Result(NamedTuple):
    """What a client's round results in."""

    delta: Params
    buffers: Params
    upload: dict[str, Tree]
    memory: dict[str, Tree]
    loss: Tensor  # [] mean over the steps

    private: tuple[Memory, ...] = ()  # per task: memory of parts that only `prepare` sees, of any shape

    def to_tree(self) -> Tree:
        """All tensors that stack."""
        return {name: value for name, value in self._asdict().items() if name != "private"}

    @classmethod
    def from_tree(cls, tree: Tree) -> Result:
        """Serialised trees have no empty branches."""
        return cls(**{"buffers": {}, "upload": {}, "memory": {}, **tree})

    def reply_tree(self) -> Tree:
        """What is sent to the server: all but the client's memory."""
        return {name: value for name, value in self.to_tree().items() if name != "memory"}

    def memories(self, tasks: int) -> list[Memory]:
        """What the client of each task keeps; of a result that is stacked over tasks."""
        stacked = rows(self.memory, tasks) if self.memory else [{} for _ in range(tasks)]
        private: Sequence[Memory] = self.private or [{} for _ in range(tasks)]
        return [{**kept, **own} for kept, own in zip(stacked, private, strict=True)]


class Replies(NamedTuple):
    """The answers of a round, stacked over the K tasks, in order of clients."""

    client: Tensor  # [K]
    samples: Tensor  # [K] before any resampling
    delta: Params  # [K, ...] local minus global
    buffers: Params  # [K, ...]
    upload: dict[str, Tree]  # part name -> [K, ...]
    loss: Tensor  # [K] mean training loss

    @classmethod
    def from_tree(cls, client: Tensor, samples: Tensor, tree: Tree) -> Replies:
        """From stacked reply trees; serialised trees have no empty branches."""
        return cls(client, samples, **{"buffers": {}, "upload": {}, **tree})

    def bytes(self) -> int:
        """Size of what the clients sent."""
        return sum(bytes_of(tree) for tree in (self.delta, self.buffers, self.upload))


def average_buffers(weights: Tensor, buffers: Params) -> Params:
    """Running statistics by the same weights; integers such as step counters by their maximum."""
    shares = weights / weights.sum()
    averaged = {
        name: mix(shares, {name: b})[name] if b.is_floating_point() else b.amax(0)
        for name, b in buffers.items()
    }
    # A rule that extrapolates has negative weights, but a variance must not be negative.
    return {name: b.clamp(min=0) if name.endswith("running_var") else b for name, b in averaged.items()}
