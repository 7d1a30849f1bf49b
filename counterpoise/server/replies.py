"""Replies of a round: checked, put in order, weighed."""

from __future__ import annotations

from collections.abc import Mapping
from typing import NamedTuple

import torch
from torch import Tensor

from counterpoise.core.checked import check_weights
from counterpoise.core.messages import Replies
from counterpoise.core.method import Method
from counterpoise.core.part import Exchange
from counterpoise.core.protocol import Rejection
from counterpoise.core.tree import Params, Tree, finite_rows, norm, row_norms, scale_rows, take

MAX_GROWTH = 1000.0  # an update this many times the model's own norm is an explosion, not training
# How reasons begin that mean diverged training
NOT_FINITE, EXPLODED = DIVERGED = "not finite", "exploded"


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


def limit_influence(
    replies: Replies, most: float | None, params: Params
) -> tuple[Replies, tuple[Clipping, ...]]:
    """Updates longer than `most` times the median norm of their round, scaled down to it.

    delta_k <- delta_k min(1, most * median_j |delta_j| / |delta_k|)

    Of an even number of replies the median is the lower of the two in the middle, which half of the clients cannot raise.

    Where most clients did not move, but for rounding, there is no length to compare with, and nothing is scaled.
    """
    count = len(replies.client)
    if most is None or count < LEAST_REPLIES:
        return replies, ()
    size = row_norms(replies.delta, count)
    middle, length = float(size.median()), norm(params)
    bound = most * middle
    if middle <= torch.finfo(length.dtype).eps * float(length) or bound >= float(size.max()):
        return replies, ()
    long = torch.nonzero(size > bound).flatten().tolist()
    delta = scale_rows(replies.delta, (bound / size).clamp(max=1.0))
    clipped = tuple(Clipping(int(replies.client[k]), float(size[k]), bound) for k in long)
    return replies._replace(delta=delta), clipped


def weigh_replies(
    method: Method, exchange: Exchange, slots: dict[str, Tree]
) -> tuple[Exchange, dict[str, Tree]]:
    """The exchange with float64 weights [K]: by samples or uniform, then through the chain of parts that weigh."""
    samples = exchange.replies.samples.double()
    base = samples if method.weighting == "samples" else torch.ones_like(samples)
    exchange = exchange._replace(weights=base / base.sum())
    for part in method.parts:
        if part.weigh is not None:
            seen = exchange.seen_by(part.name)
            weights, kept = part.weigh(seen.weights, slots.get(part.name, {}), seen)
            check_weights(part, weights, len(samples))
            exchange, slots = exchange._replace(weights=weights), slots | ({part.name: kept} if kept else {})
    return exchange, slots


def treat_replies(method: Method, exchange: Exchange, slots: Mapping[str, Tree]) -> Exchange:
    """The exchange with every update passed through the chain of parts that treat; later rules see only these."""
    for part in method.parts:
        if part.treat is not None:
            seen = exchange.seen_by(part.name)
            delta = part.treat(seen.replies.delta, slots.get(part.name, {}), seen)
            exchange = exchange._replace(replies=exchange.replies._replace(delta=delta))
    return exchange


def select(replies: Replies, rows: Tensor) -> Replies:
    """These rows of the replies, in this order."""
    if torch.equal(rows, torch.arange(len(replies.client))):
        return replies
    return Replies(**take(replies._asdict(), rows))
