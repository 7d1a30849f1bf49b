"""Clients that do poorly on their own classes count for more: the second half of Fed-Focal Loss, Sarkar, Narang & Rai 2020, arXiv:2011.06283."""

from __future__ import annotations

from typing import Annotated

import torch
import torch.nn.functional as F  # noqa: N812
from torch import Tensor

from counterpoise.core.method import part
from counterpoise.core.part import Census, Chart, Exchange, Part, Reveals, Stats, Step
from counterpoise.core.shares import ceil_share
from counterpoise.core.tree import Params, Tree
from counterpoise.registry.schema import Interval, NonNegative

FEDFOCAL = "Sarkar, Narang & Rai 2020, arXiv:2011.06283"
LEAST = 1e-6  # what a client without any error still counts
Keep = Annotated[
    float, Interval(0, 1, open_low=True), "share of the round's replies that are used: the weakest clients"
]


@part(paper=FEDFOCAL, off={"focus": 0.0, "keep": 1.0})
def client_focus(focus: NonNegative = 1.0, keep: Keep = 1.0) -> Part:
    """``w_k <- w_k (1 - s_k)^focus``, renormalised, over the share `keep` of the round's clients with the least s_k.

    s_k is the mean recall over the client's own classes, counted on the batches that it trains on, so that a rare class weighs as
    much as a frequent one; ``1 - s_k`` is taken as at least 1e-6. The formula is ours: of the paper's choice only summaries were
    at hand, by which the server samples the clients' models that contribute, and clients that do poorly on minority classes
    contribute more.
    """

    def init(params: Params, census: Census, surveys: Tree) -> Tree:
        return {"scores": torch.zeros(census.clients, dtype=torch.float64)}

    def start(params: Params, shared: Tree, memory: Tree, stats: Stats) -> Tree:
        zero = torch.zeros_like(stats.counts, dtype=stats.lr.dtype)
        return {"hits": zero, "seen": zero}

    def adjust(grads: Params, slot: Tree, step: Step) -> tuple[Params, Tree]:
        batch, found = step.batch, step.outputs.logits.argmax(-1)
        own = F.one_hot(batch.y, slot["seen"].shape[-1]) * batch.mask.unsqueeze(-1)  # [B, C]
        right = own * (found == batch.y).unsqueeze(-1)
        return grads, {"hits": slot["hits"] + right.sum(0), "seen": slot["seen"] + own.sum(0)}

    def finish(delta: Params, slot: Tree, memory: Tree, stats: Stats) -> tuple[Tree, Tree]:
        return {"score": mean_recall(slot["hits"], slot["seen"])}, memory

    def weigh(weights: Tensor, slot: Tree, exchange: Exchange) -> tuple[Tensor, Tree]:
        scores = exchange.upload["score"].double().cpu().clamp(0, 1)  # no recall is below 0: that is a lie
        found = focused(weights, scores.to(weights), focus, keep)
        return found, {"scores": exchange.renew(slot["scores"], scores)}

    return Part(
        init=init,
        start=start,
        adjust=adjust,
        finish=finish,
        weigh=weigh,
        charts=(
            Chart(
                "scores", "bars", "Mean recall while training last", lambda slot: slot["scores"], "clients"
            ),
        ),
        reveals=Reveals(upload="its mean recall over its own classes while it trains"),
    )


def mean_recall(hits: Tensor, seen: Tensor) -> Tensor:
    """[] over the classes that were seen; 1 where none was."""
    recalls = hits / seen.clamp(min=1)
    classes = (seen > 0).sum()
    return torch.where(classes > 0, recalls.sum() / classes.clamp(min=1), torch.ones_like(recalls.sum()))


def focused(weights: Tensor, scores: Tensor, focus: float, keep: float) -> Tensor:
    """[K] weights that sum to 1; of equal scores the earlier clients are kept."""
    count = max(1, ceil_share(keep, len(scores)))
    kept = torch.zeros_like(weights).index_fill(0, scores.argsort(stable=True)[:count], 1.0)
    doubt = (1 - scores).clamp(min=LEAST).log()
    # Relative to the largest factor, so that a strong focus does not turn all of them to 0.
    found = weights * kept * (focus * (doubt - doubt[kept > 0].max())).exp()
    return found / found.sum() if found.sum() > 0 else weights
