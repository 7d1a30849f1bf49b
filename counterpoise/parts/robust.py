"""Averages that a few wrong updates cannot lead away: what clients send is treated before it is averaged.

A rule that ignores outliers also ignores the few clients that hold a rare class: look at tail recall beside it.
"""

from __future__ import annotations

from typing import Annotated

import torch
from torch import Tensor

from counterpoise.core.method import part
from counterpoise.core.part import Exchange, Part
from counterpoise.core.tree import Params, Tree, leaves, row_norms, scale_rows, tmap
from counterpoise.registry.schema import Interval, Positive, Whole

YIN = "Yin et al. 2018, arXiv:1803.01498"
Trim = Annotated[float, Interval(0, 0.5, open_high=True)]


@part(paper=YIN)
def median() -> Part:
    """``delta_j <- median over the replies of (delta_k)_j`` for each coordinate j; of an even number the mean of the middle two."""

    def treat(deltas: Params, slot: Tree, exchange: Exchange) -> Params:
        return tmap(lambda leaf: _for_all(_median(leaf), leaf), deltas)

    return Part(treat=treat, drops_outliers=True)


@part(paper=YIN, off={"beta": 0.0})
def trimmed_mean(beta: Trim = 0.2) -> Part:
    """The weighted mean of each coordinate without its ``floor(beta K)`` largest and as many smallest values."""

    def treat(deltas: Params, slot: Tree, exchange: Exchange) -> Params:
        cut = int(beta * len(exchange.weights))
        return (
            tmap(lambda leaf: _for_all(_trimmed(leaf, exchange.weights, cut), leaf), deltas)
            if cut
            else deltas
        )

    return Part(treat=treat, drops_outliers=beta > 0)


@part(paper="Blanchard et al. 2017, arXiv:1703.02757")
def krum(byzantine: Whole = 1) -> Part:
    """The one update with the least sum of squared distances to its ``K - byzantine - 2`` nearest others.

    With fewer than ``byzantine + 3`` replies the nearest one counts.
    """

    def treat(deltas: Params, slot: Tree, exchange: Exchange) -> Params:
        count = len(exchange.weights)
        near = max(1, count - byzantine - 2)
        gaps = squared_distances(deltas, count).fill_diagonal_(torch.inf)
        scores = gaps.sort(dim=1).values[:, :near].sum(1) if count > 1 else gaps.new_zeros(1)
        best = int(scores.argmin())
        return tmap(lambda leaf: _for_all(leaf[best], leaf), deltas)

    return Part(treat=treat, drops_outliers=True)


@part(paper="Sun et al. 2019, arXiv:1911.07963")
def clip_updates(norm: Positive = 1.0) -> Part:
    """``delta_k <- delta_k min(1, norm / |delta_k|)``: no update is longer than `norm`."""

    def treat(deltas: Params, slot: Tree, exchange: Exchange) -> Params:
        size = row_norms(deltas, len(exchange.weights))
        return scale_rows(deltas, (norm / size.clamp(min=1e-300)).clamp(max=1.0))

    return Part(treat=treat)


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


def _for_all(mean: Tensor, leaf: Tensor) -> Tensor:
    """The same update from everyone, so that whatever their weights are they average to it."""
    return mean.expand_as(leaf)
