"""A tree of boxes of rates: paper 000 (FedHOO), section 3.3 and Algorithm 2, corrected as in spec 2.2."""

from __future__ import annotations

import math
from typing import NamedTuple

import torch
from torch import Tensor


class Nodes(NamedTuple):
    """Nodes in order of creation: a parent comes before its children, the root first. G is the number of rates."""

    lower: Tensor  # [n, G] float64
    upper: Tensor  # [n, G]
    parent: Tensor  # [n] -1 at the root
    depth: Tensor  # [n]
    visits: Tensor  # [n] float64 N, rewards that count in the value
    value: Tensor  # [n] V, their mean


def plant(low: float, high: float, dimensions: int) -> Nodes:
    """A root that covers ``[low, high]^G`` and has no visits yet."""
    box = torch.ones(1, dimensions, dtype=torch.float64)
    zero = torch.zeros(1, dtype=torch.int64)
    return Nodes(low * box, high * box, zero - 1, zero, zero.double(), zero.double())


def sides(places: Tensor, dimensions: int) -> Tensor:
    """[M, G] the lower (0) or upper (1) half of each rate that a place stands for; the first rate varies slowest."""
    return places.unsqueeze(-1) >> torch.arange(dimensions - 1, -1, -1) & 1


def halves(nodes: Nodes, node: int, places: Tensor) -> tuple[Tensor, Tensor]:
    """Lower and upper corners [M, G] of these parts of a node's box."""
    low, high = nodes.lower[node], nodes.upper[node]
    upper_half = sides(places, len(low)) == 1
    middle = (low + high) / 2
    return torch.where(upper_half, middle, low), torch.where(upper_half, high, middle)


def probes(nodes: Nodes, node: int) -> Tensor:
    """[2, G] the centres of both halves of each rate: ``(3 L + U) / 4`` and ``(L + 3 U) / 4``."""
    low, high = nodes.lower[node], nodes.upper[node]
    return torch.stack([(3 * low + high) / 4, (low + 3 * high) / 4])


def grow(nodes: Nodes, node: int, places: Tensor, rewards: Tensor) -> Nodes:
    """Children of a node at these places, each visited once."""
    lower, upper = halves(nodes, node, places)
    once = torch.ones_like(places)
    children = Nodes(lower, upper, node * once, (nodes.depth[node] + 1) * once, once.double(), rewards)
    return Nodes(*(torch.cat(both) for both in zip(nodes, children, strict=True)))


def back_up(nodes: Nodes, node: int, rewards: Tensor) -> Nodes:
    """``N <- N + M``, ``V <- V + M / N (mean R - V)`` from a node up to the root."""
    rows = torch.tensor(path(nodes, node))
    visits = nodes.visits.index_add(0, rows, torch.full(rows.shape, len(rewards)).double())
    change = len(rewards) / visits[rows] * (rewards.mean() - nodes.value[rows])
    return nodes._replace(visits=visits, value=nodes.value.index_add(0, rows, change))


def path(nodes: Nodes, node: int) -> list[int]:
    """The rows from a node up to the root."""
    rows = [node]
    while (above := int(nodes.parent[rows[-1]])) >= 0:
        rows.append(above)
    return rows


def leaves(nodes: Nodes) -> Tensor:
    """[n] True where a node has no children."""
    return ~torch.isin(torch.arange(len(nodes.parent)), nodes.parent)


def optimism(nodes: Nodes, round: int, tau: float, alpha: float, rho: float | None = None) -> Tensor:
    """[n] equation 2: ``V + tau diam^h + sqrt(alpha ln(t + 1) / N)``; with rho ``diam rho^h``; infinite before any visit."""
    width = (nodes.upper - nodes.lower).amax(-1)
    size = width**nodes.depth if rho is None else width * rho ** nodes.depth.double()
    bonus = (alpha * math.log(round + 1) / nodes.visits.clamp(min=1)).sqrt()
    return torch.where(nodes.visits > 0, nodes.value + tau * size + bonus, torch.inf)


def bounds(nodes: Nodes, round: int, tau: float, rho: float) -> Tensor:
    """[n] HOO's ``B = min(U, max child B)``, ``U = V + sqrt(2 ln t / N) + tau rho^h``; a part never visited is infinite."""
    bonus = (2 * math.log(max(round, 1)) / nodes.visits.clamp(min=1)).sqrt()
    bound = torch.where(nodes.visits > 0, nodes.value + bonus + tau * rho ** nodes.depth.double(), torch.inf)
    parts = 2 ** nodes.lower.shape[1]
    missing = torch.bincount(nodes.parent[1:], minlength=len(bound)) < parts
    unseen = torch.where(missing, torch.inf, -torch.inf).double()
    for depth in range(int(nodes.depth.max()), 0, -1):
        here = nodes.depth == depth
        best = unseen.scatter_reduce(0, nodes.parent[here], bound[here], "amax")
        bound = torch.where(nodes.depth == depth - 1, torch.minimum(bound, best), bound)
    return bound


def descend(nodes: Nodes, bound: Tensor, deepest: int) -> tuple[int, int | None]:
    """HOO's way down along the largest bounds: the last node, and the part of it to visit first, None at the deepest level."""
    node, parts = 0, 2 ** nodes.lower.shape[1]
    while int(nodes.depth[node]) < deepest:
        children = torch.nonzero(nodes.parent == node).flatten()
        if len(children) < parts:
            return node, len(children)  # parts are visited in order
        node = int(children[bound[children].argmax()])
    return node, None
