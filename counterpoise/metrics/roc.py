"""How well the probability of a class ranks its samples before the rest: histograms that add up, and areas under curves.

Scores in one bin are tied. Bins are narrow around p = 1 / C and widen in proportion to the distance from it, in
logits: this separates the scores of a model that has hardly learned as well as of one that is sure of everything.
"""

from __future__ import annotations

import math

import torch
import torch.nn.functional as F  # noqa: N812
from torch import Tensor

CELLS = 1 << 18  # of the histograms of one model, 2 MiB, unless so many classes need more
FEWEST_BINS, MOST_BINS = 4096, 32768
MOST_CLASSES = 128  # whose histograms are 8 MiB; with more there are none
FINEST = 0.01  # distance from 1 / C, in logits, below which all bins are alike
FARTHEST = 750.0  # and beyond which all are tied; exp(-745) is the least positive float


def bins_for(classes: int) -> int:
    """A power of two; 0 where there are too many classes."""
    if classes > MOST_CLASSES:
        return 0
    room = 1 << int(math.log2(CELLS / (2 * classes)))
    return min(max(room, FEWEST_BINS), MOST_BINS)


def histograms(logits: Tensor, y: Tensor, mask: Tensor | None = None) -> Tensor:
    """Counts [bins, 2, C] by probability of a class: of the samples of other classes, and of its own."""
    classes = logits.shape[-1]
    bins = bins_for(classes)
    weight = torch.ones_like(y) if mask is None else mask.to(torch.int64)  # [B]
    own = F.one_hot(torch.where(weight > 0, y, 0), classes)  # padding may carry any label
    columns = own * classes + torch.arange(classes, device=logits.device)
    cells = (bins_of(logits, bins) * (2 * classes) + columns).reshape(-1)
    weights = weight[:, None].expand(own.shape).reshape(-1)
    # made from the logits, so that it is batched under vmap as they are
    counts = logits.new_zeros(bins * 2 * classes, dtype=torch.int64)
    return counts.scatter_add_(0, cells, weights).view(bins, 2, classes)


def occupied(counts: Tensor) -> Tensor:
    """The bins that are not empty; the others, which are most, change no area."""
    return counts[counts.flatten(1).sum(1) > 0].cpu()


def per_class_auroc(counts: Tensor) -> list[float | None]:
    """``P(own > other) + P(own = other) / 2``; None for a class without samples on both sides."""
    others, own = counts.unbind(1)
    wins = (own * (2 * others.cumsum(0) - others)).sum(0).tolist()  # in halves
    pairs = (2 * own.sum(0) * others.sum(0)).tolist()
    return [won / of if of else None for won, of in zip(wins, pairs, strict=True)]


def per_class_average_precision(counts: Tensor) -> list[float | None]:
    """``sum_n (R_n - R_{n-1}) P_n`` from the highest score down; None for a class without samples on both sides."""
    others, own = counts.flip(0).unbind(1)
    hits = own.cumsum(0)
    precisions = hits.double() / (hits + others.cumsum(0)).clamp(min=1)
    areas, sizes, rests = ((own * precisions).sum(0), own.sum(0), others.sum(0))
    each = zip(areas.tolist(), sizes.tolist(), rests.tolist(), strict=True)
    return [area / size if size and rest else None for area, size, rest in each]


def bin_edge(place: int, bins: int) -> float:
    """The lowest probability in a bin of two classes."""
    distance = FINEST * math.sinh((2 * place / bins - 1) * math.asinh(FARTHEST / FINEST))
    return 1 / (1 + math.exp(-distance)) if distance > -700 else 0.0


def bins_of(logits: Tensor, bins: int) -> Tensor:
    """The bin of each probability; one that is NaN, as of a model that diverged, counts as 0."""
    chance = logits.double().softmax(-1)
    distance = chance.logit() + math.log(max(logits.shape[-1] - 1, 1))
    share = (distance / FINEST).asinh() / math.asinh(FARTHEST / FINEST)  # -1 to 1
    return ((share + 1) / 2 * bins).nan_to_num(0.0).clamp(0, bins - 1).long()
