"""Rounds that try several settings of each client: which tasks, and which of the replies to use."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Sequence
from typing import NamedTuple, TypeAlias

import torch
from torch import Tensor

from counterpoise.core.messages import Replies, Task, average_buffers
from counterpoise.core.method import Method
from counterpoise.core.part import Exchange, Judge, Part, call
from counterpoise.core.rounds import counted
from counterpoise.core.tree import Params, Tree, bytes_of, stack, take, tmap
from counterpoise.errors import ConfigError, short
from counterpoise.server.replies import select, weigh_replies


class Traffic(NamedTuple):
    """Bytes to clients and back."""

    down: int = 0
    up: int = 0


class Scores(NamedTuple):
    """Scores of models, and the traffic of scoring."""

    values: Tensor  # [M]
    traffic: Traffic = Traffic()


Score: TypeAlias = Callable[[Params, Params], Scores]  # models [M, ...], their buffers
Slots: TypeAlias = dict[str, Tree]  # part name -> server slot

JUDGED_BYTES = 1 << 31  # models that are scored at once


def propose_tasks(method: Method, slots: Slots, round: int, cohort: Sequence[int]) -> Sequence[Task]:
    """One task per client, unless a part proposes tasks with settings of its own."""
    owner = method.owner("propose")
    plain = [Task(client) for client in cohort]
    if owner is None:
        return plain
    tasks: Sequence[Task] = call(owner.propose, plain, slots.get(owner.name, {}), round, list(cohort))
    each = Counter(task.client for task in tasks)
    if set(each) != set(cohort) or len(set(each.values())) > 1:
        raise ConfigError(
            f"{owner.name} must propose equally many tasks for each of the {len(cohort)} clients of round {counted(round)}, not {short(dict(each))}"
        )
    return tasks


def choose_replies(
    method: Method, owner: Part, exchange: Exchange, slots: Slots, score: Score | None, spent: list[Traffic]
) -> tuple[Replies, Slots]:
    """The replies that a search chooses, and the slots with what it learned; the traffic of scoring is appended to `spent`."""
    judge = judge_of(method, exchange, slots, score, spent)
    rows, slot = call(owner.choose, None, slots.get(owner.name, {}), exchange.replies, judge)
    return select(exchange.replies, rows), {**slots, owner.name: slot}


def judge_of(
    method: Method, exchange: Exchange, slots: Slots, score: Score | None, spent: list[Traffic]
) -> Judge:
    """Scores of the models that selections of the replies average to, before any further rule of the server.

    The traffic of each scoring is appended to `spent`.
    """
    if score is None:
        raise ConfigError(f"{method.name} needs validation samples to score its models on; none were given")

    def judge(selections: Tensor) -> Tensor:
        pieces = torch.split(selections, max(1, JUDGED_BYTES // max(bytes_of(exchange.params), 1)))
        scores = [score(*mixtures(method, exchange, slots, piece)) for piece in pieces]
        spent.extend(one.traffic for one in scores)
        return torch.cat([one.values for one in scores])

    return judge


def mixtures(method: Method, exchange: Exchange, slots: Slots, selections: Tensor) -> tuple[Params, Params]:
    """The models [M, ...] and buffers that selections [M, K] of the replies average to, formed by one product."""
    replies = exchange.replies
    # Only a `weigh` hook reads more than sample counts, and copies of every update would fill the memory.
    seen = replies if method.owner("weigh") else replies._replace(delta={}, buffers={}, upload={})
    chosen = (exchange._replace(replies=select(seen, rows)) for rows in selections)
    weights = [weigh_replies(method, one, slots)[0].weights for one in chosen]
    shares = torch.zeros(len(selections), len(replies.client), dtype=torch.float64)
    shares.scatter_(1, selections, torch.stack(weights))

    def mixed(start: Tensor, delta: Tensor) -> Tensor:
        change: Tensor = torch.tensordot(shares.to(delta.device, delta.dtype), delta, 1)
        return start + change

    buffers = [
        average_buffers(w, take(replies.buffers, rows)) for w, rows in zip(weights, selections, strict=True)
    ]
    return tmap(mixed, exchange.params, replies.delta), stack(buffers)
