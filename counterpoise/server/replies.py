"""Replies of a round: checked, put in order, weighed."""

from __future__ import annotations

from typing import NamedTuple

import torch
from torch import Tensor

from counterpoise.core.messages import Replies
from counterpoise.core.method import Method
from counterpoise.core.part import call
from counterpoise.core.protocol import Rejection
from counterpoise.core.tree import Params, Tree, finite_rows, norm, row_norms, take, tmap

MAX_GROWTH = 1000.0  # an update this many times the model's own norm is an explosion, not training
NOT_FINITE, EXPLODED = DIVERGED = (
    "not finite",
    "exploded",
)  # how reasons begin that mean diverged training


LEAST_REPLIES = 3  # fewer have no median to compare with


class Clipping(NamedTuple):
    """An update that was scaled down, its norm before, and the bound."""

    client: int
    norm: float
    bound: float


def check_replies(replies: Replies, params: Params) -> tuple[Replies, tuple[Rejection, ...]]:
    """The usable replies, and the rejected ones with the reason."""
    count = len(replies.client)
    size, bound = row_norms(replies.delta, count), MAX_GROWTH * max(float(norm(params)), 1.0)
    rest = {"buffers": replies.buffers, "upload": replies.upload, "loss": replies.loss}
    finite = torch.isfinite(size) & finite_rows(rest, count)
    good = finite & (size <= bound)
    rejected = [
        Rejection(
            int(replies.client[k]),
            NOT_FINITE if not finite[k] else f"{EXPLODED}: norm {float(size[k]):.3g} over {bound:.3g}",
        )
        for k in torch.nonzero(~good).flatten().tolist()
    ]
    return (replies if not rejected else select(replies, torch.nonzero(good).flatten())), tuple(rejected)


def limit_influence(replies: Replies, most: float | None) -> tuple[Replies, tuple[Clipping, ...]]:
    """Updates longer than `most` times the median norm of their round, scaled down to it.

    delta_k <- delta_k min(1, most * median_j |delta_j| / |delta_k|)
    """
    count = len(replies.client)
    if most is None or count < LEAST_REPLIES:
        return replies, ()
    size = row_norms(replies.delta, count)
    bound = most * float(size.median())
    if not 0 < bound < float(size.max()):
        return replies, ()
    long = torch.nonzero(size > bound).flatten().tolist()
    delta = tmap(lambda leaf: _scaled(leaf, (bound / size).clamp(max=1.0)), replies.delta)
    clipped = tuple(Clipping(int(replies.client[k]), float(size[k]), bound) for k in long)
    return replies._replace(delta=delta), clipped


def _scaled(leaf: Tensor, factors: Tensor) -> Tensor:
    """Rows times their factors; a factor of 1 changes no bit."""
    return leaf * factors.to(leaf.device, leaf.dtype).view(-1, *[1] * (leaf.dim() - 1))


def weigh_replies(method: Method, replies: Replies, slots: dict[str, Tree]) -> Tensor:
    """[K] float64 weights: by samples or uniform, then by the part that owns them."""
    base = (
        replies.samples.double()
        if method.weighting == "samples"
        else torch.ones(len(replies.client), dtype=torch.float64)
    )
    weights = base / base.sum()
    owner = method.owner("weigh")
    return (
        weights if owner is None else call(owner.weigh, weights, weights, slots.get(owner.name, {}), replies)
    )


def select(replies: Replies, rows: Tensor) -> Replies:
    """These rows of the replies, in this order."""
    if torch.equal(rows, torch.arange(len(replies.client))):
        return replies
    return Replies(**take(replies._asdict(), rows))
