"""Clients of unequal length in few lanes: where one client ends, the next one takes its place in the stack."""

from __future__ import annotations

import heapq
from collections.abc import Callable, Sequence
from typing import NamedTuple

import torch
from torch import Tensor

from counterpoise.core.tree import Tree, leaves, take, tmap

# Lanes that a stack may have: few, so that captured steps fit again
WIDTHS = (1, 2, 3, 4, 6, 8, 12, 16, 24, 32, 48, 64, 96)
LATENCY = 1.0  # fixed cost of a step, in lanes
GOOD_ENOUGH = 1.25  # times the least cost up to which a captured width is used again


class Swap(NamedTuple):
    """After so many steps a client leaves its lane, and the next one enters it."""

    after: int
    lane: int
    done: int
    next: int | None


class Schedule(NamedTuple):
    """Which client is in which lane when."""

    lanes: list[list[int]]  # clients of each lane, one after another
    steps: Sequence[int]  # of each client

    @property
    def length(self) -> int:
        """Steps until the last client is done."""
        return max(sum(self.steps[client] for client in lane) for lane in self.lanes)

    def swaps(self) -> list[Swap]:
        """In the order in which they happen."""
        found = []
        for number, lane in enumerate(self.lanes):
            after = 0
            for client, following in zip(lane, [*lane[1:], None], strict=True):
                after += self.steps[client]
                found.append(Swap(after, number, client, following))
        return sorted(found, key=lambda swap: (swap.after, swap.lane))

    def visits(self, visits: Tree, length: int) -> Tree:
        """Visits [K, S, ...] of clients as visits [W, length, ...] of lanes; unused steps repeat client 0's first batch."""
        places = torch.zeros(2, len(self.lanes), length, dtype=torch.int64)
        for number, lane in enumerate(self.lanes):
            after = 0
            for client in lane:
                count = self.steps[client]
                places[0, number, after : after + count] = client
                places[1, number, after : after + count] = torch.arange(count)
                after += count
        client, step = places.to(next(leaves(visits)).device)
        return tmap(lambda leaf: leaf[client, step], visits)


def schedule(steps: Sequence[int], width: int) -> Schedule:
    """Longest client first, each into the lane that is free first."""
    lanes: list[list[int]] = [[] for _ in range(width)]
    free = [(0, number) for number in range(width)]
    for client in sorted(range(len(steps)), key=lambda k: -steps[k]):
        busy, number = heapq.heappop(free)
        lanes[number].append(client)
        heapq.heappush(free, (busy + steps[client], number))
    return Schedule([lane for lane in lanes if lane], steps)


def choose_width(steps: Sequence[int], known: Sequence[int]) -> int:
    """As many lanes as the longest client keeps busy: more would wait for it, and fewer would make it wait.

    A known width is used again where it costs little more.
    """
    most = len(steps)
    ideal = min(sorted({width for width in WIDTHS if width < most} | {most}), key=lambda w: _cost(steps, w))
    usable = [width for width in known if width <= most]
    best = min(usable, key=lambda width: _cost(steps, width), default=ideal)
    return best if _cost(steps, best) <= GOOD_ENOUGH * _cost(steps, ideal) else ideal


def _cost(steps: Sequence[int], width: int) -> float:
    return schedule(steps, width).length * (width + LATENCY)


def run_lanes(places: Tree, clients: Tree, plan: Schedule, advance: Callable[[], None]) -> Tree:
    """The progress [K, ...] of all clients after their steps.

    `places` holds progress and stats of the lanes and is changed by `advance`; `clients` holds those of all clients.
    """
    first = torch.tensor([lane[0] for lane in plan.lanes]).to(next(leaves(clients)).device)
    tmap(lambda place, value: place.copy_(value), places, take(clients, first))
    ended = tmap(torch.empty_like, clients["progress"])
    done = 0
    for swap in plan.swaps():
        for _ in range(swap.after - done):
            advance()
        done = swap.after
        _copy_rows(ended, swap.done, places["progress"], swap.lane)
        if swap.next is not None:
            _copy_rows(places, swap.lane, clients, swap.next)
    return ended


def _copy_rows(to: Tree, row: int, source: Tree, other: int) -> None:
    """Copy one row of every leaf, in few kernel launches."""
    targets: list[Tensor] = [leaf[row] for leaf in leaves(to)]
    torch._foreach_copy_(targets, [leaf[other] for leaf in leaves(source)])
