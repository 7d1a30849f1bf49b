"""Clients that train as ever and whose answers are lost on the way, by a rule that names them."""

from __future__ import annotations

from collections.abc import Callable, Collection, Sequence
from dataclasses import dataclass

import torch

from counterpoise.core.messages import Broadcast, Replies, Task
from counterpoise.core.rng import generator
from counterpoise.core.tree import Tree, leaves
from counterpoise.engines.choose import EngineSettings, build_engine
from counterpoise.engines.embedded import EmbeddedEngine
from counterpoise.engines.workplace import Workplace
from counterpoise.run.build import Connect
from counterpoise.server.replies import select

Lost = Callable[[int, Sequence[int]], Collection[int]]  # round, clients asked -> those not heard of


def share_of(rate: float, seed: int) -> Lost:
    """The same share of every cohort, drawn anew in each round."""

    def lost(round: int, asked: Sequence[int]) -> list[int]:
        order = torch.randperm(len(asked), generator=generator(seed, "lost", round)).tolist()
        return [asked[place] for place in order[: int(rate * len(asked) + 0.5)]]

    return lost


def each_with_chance(rate: float, seed: int, until: int) -> Lost:
    """Each client by itself, so that a round may be left without any; from round `until` on all are heard."""

    def lost(round: int, asked: Sequence[int]) -> list[int]:
        if round >= until:
            return []
        luck = torch.rand(len(asked), generator=generator(seed, "lost", round)).tolist()
        return [client for client, drawn in zip(asked, luck, strict=True) if drawn < rate]

    return lost


def away(clients: Collection[int], rounds: Collection[int]) -> Lost:
    """These clients during these rounds."""
    return lambda round, asked: clients if round in rounds else ()


@dataclass
class LossyEngine(EmbeddedEngine):
    """The embedded engine with answers left out; what their clients learned waits for a commit that never comes."""

    lost: Lost = lambda round, asked: ()

    def train(self, tasks: Sequence[Task], broadcast: Broadcast) -> Replies:
        replies = super().train(tasks, broadcast)
        lost = self.lost(broadcast.round, [task.client for task in tasks])
        heard = [place for place, client in enumerate(replies.client.tolist()) if client not in lost]
        return select(replies, torch.tensor(heard, dtype=torch.int64))


def losing(lost: Lost) -> Connect:
    """How a run connects to clients of whom some are not heard."""

    def connect(settings: EngineSettings, work: Workplace) -> LossyEngine:
        return LossyEngine(work, build_engine(settings, work).trainer, lost=lost)

    return connect


def all_finite(*trees: Tree) -> bool:
    return all(bool(leaf.isfinite().all()) for tree in trees for leaf in leaves(tree))
