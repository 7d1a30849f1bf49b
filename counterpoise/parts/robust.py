"""Averages that a few wrong updates cannot lead away: what clients send is treated before it is averaged.

A rule that ignores outliers also ignores the few clients that hold a rare class: look at tail recall beside it.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Annotated

import torch
from torch import Tensor

from counterpoise.core.method import part
from counterpoise.core.part import Census, Exchange, Part
from counterpoise.core.shares import floor_share
from counterpoise.core.tree import Params, Tree, clip_rows, leaves, tmap
from counterpoise.errors import ConfigError
from counterpoise.registry.schema import Interval, Positive, Whole

YIN = "Yin et al. 2018, arXiv:1803.01498"
MOST_REPLIES = 2**53  # more than any round has
Trim = Annotated[float, Interval(0, 0.5, open_high=True)]


@part(paper=YIN)
def median() -> Part:
    """``delta_j <- median over the replies of (delta_k)_j`` for each coordinate j; of an even number the mean of the middle two."""

    def treat(deltas: Params, slot: Tree, exchange: Exchange) -> Params:
        return tmap(lambda leaf: for_all(_median(leaf), leaf), deltas)

    return Part(treat=treat, curbs_outliers=True)


@part(paper=YIN, off={"beta": 0.0})
def trimmed_mean(beta: Trim = 0.2) -> Part:
    """The weighted mean of each coordinate without its ``floor(beta K)`` largest and as many smallest values.

    Cohorts of fewer than ``1 / beta`` clients are refused; so few replies of a larger one are averaged as they are.
    """

    def treat(deltas: Params, slot: Tree, exchange: Exchange) -> Params:
        cut = floor_share(beta, len(exchange.weights))
        return (
            tmap(lambda leaf: for_all(_trimmed(leaf, exchange.weights, cut), leaf), deltas) if cut else deltas
        )

    return Part(init=needs_clients("trimmed_mean", least_trimmed(beta)), treat=treat, curbs_outliers=beta > 0)


@part(paper="Blanchard et al. 2017, arXiv:1703.02757")
def krum(byzantine: Whole = 1) -> Part:
    """The one update with the least sum of squared distances to its ``K - byzantine - 2`` nearest others.

    Cohorts of fewer than ``2 byzantine + 3`` clients are refused. So few replies of a larger one are still compared; of
    fewer than ``byzantine + 3`` the nearest one counts.
    """

    def treat(deltas: Params, slot: Tree, exchange: Exchange) -> Params:
        count = len(exchange.weights)
        near = max(1, count - byzantine - 2)
        gaps = squared_distances(deltas, count).fill_diagonal_(torch.inf)
        scores = gaps.sort(dim=1).values[:, :near].sum(1) if count > 1 else gaps.new_zeros(1)
        best = int(scores.argmin())
        return tmap(lambda leaf: for_all(leaf[best], leaf), deltas)

    return Part(init=needs_clients("krum", 2 * byzantine + 3), treat=treat, curbs_outliers=True)


@part(paper="Sun et al. 2019, arXiv:1911.07963")
def clip_updates(norm: Positive = 1.0) -> Part:
    """``delta_k <- delta_k min(1, norm / |delta_k|)``: no update is longer than `norm`."""

    def treat(deltas: Params, slot: Tree, exchange: Exchange) -> Params:
        return clip_rows(deltas, norm, len(exchange.weights))

    return Part(treat=treat, curbs_outliers=True)


def needs_clients(rule: str, least: int) -> Callable[[Params, Census, Tree], Tree]:
    """An `init` that refuses rounds too small for the rule to do what it is for; lost replies do not stop a run."""

    def init(params: Params, census: Census, surveys: Tree) -> Tree:
        if census.asked < least:
            raise ConfigError(
                f"{rule} needs at least {least} clients per round with these arguments, not {census.asked}; change them or cohort.size"
            )
        return {}

    return init


def least_trimmed(beta: float) -> int:
    """Smallest number of replies of which any are left out; 1 where a beta of 0 asks for none."""
    if not beta:
        return 1
    near = math.ceil(min(1 / beta, MOST_REPLIES))
    return next((count for count in (near - 1, near) if floor_share(beta, count)), near + 1)


def squared_distances(stacked: Params, count: int) -> Tensor:
    """[K, K] float64 between rows taken as one vector."""
    total = torch.zeros(count, count, dtype=torch.float64)
    for leaf in leaves(stacked):
        rows = leaf.flatten(1).double()
        total += torch.stack([(rows - row).square().sum(1) for row in rows]).cpu()
    return total


def _median(leaf: Tensor) -> Tensor:
    ordered, middle = leaf.sort(dim=0).values, len(leaf) // 2
    return ordered[middle] if len(leaf) % 2 else (ordered[middle - 1] + ordered[middle]) / 2


def _trimmed(leaf: Tensor, weights: Tensor, cut: int) -> Tensor:
    """Ranks are of each coordinate; equal values keep the order of their clients."""
    shares = weights.to(leaf.device, leaf.dtype).view(-1, *[1] * (leaf.dim() - 1)).expand_as(leaf)
    rank = leaf.argsort(dim=0, stable=True).argsort(dim=0)
    kept = shares * ((rank >= cut) & (rank < len(leaf) - cut))
    return (kept * leaf).sum(0) / kept.sum(0).clamp(min=1e-12)


def for_all(mean: Tensor, leaf: Tensor) -> Tensor:
    """The same update from everyone, so that whatever their weights are they average to it."""
    return mean.expand_as(leaf)
