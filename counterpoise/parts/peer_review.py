"""Replies that other clients find worse than the rest are left out, by balanced accuracy: rare classes count as much as frequent ones."""

from __future__ import annotations

from typing import Annotated

import torch
from torch import Tensor

from counterpoise.core.method import part
from counterpoise.core.part import Census, Chart, Exchange, Pair, Part
from counterpoise.core.tree import Params, Tree
from counterpoise.metrics.scores import balanced_accuracy
from counterpoise.parts.held_out import JUDGED, note_training_samples
from counterpoise.registry.schema import Count, Fraction


@part(off={"tolerance": 1.0})
def peer_review(
    judges: Annotated[Count, "clients that judge all replies of a round"] = 5,
    tolerance: Annotated[Fraction, "balanced accuracy that a reply may be behind the round's middle"] = 0.1,
) -> Part:
    """Weights of replies are set to 0 where the median over judges of ``b_jk - median_k b_jk`` is below -tolerance; the others keep theirs.

    b_jk is the balanced accuracy of reply k's model on what judge j holds out, so few judges that lie change nothing. The rule is ours,
    in the spirit of servers that score updates on samples of their own (Xie et al. 2019, Zeno), without such samples. A judge who has
    few classes finds models of clients with other classes poor: give it tolerance where clients differ much.
    """

    def init(params: Params, census: Census, surveys: Tree) -> Tree:
        return {"behind": torch.zeros(census.clients, dtype=torch.float64)}

    def weigh(weights: Tensor, slot: Tree, exchange: Exchange) -> tuple[Tensor, Tree]:
        if exchange.ask is None:  # a search compares models before anybody judges them
            return weights, slot
        behind = standing(reviews(exchange, judges))
        kept = weights * (behind >= -tolerance).to(weights)
        found = kept / kept.sum() if kept.sum() > 0 else weights
        return found, {"behind": exchange.renew(slot["behind"], behind)}

    return Part(
        init=init,
        weigh=weigh,
        note=note_training_samples,
        curbs_outliers=True,
        reveals=JUDGED,
        charts=(
            Chart(
                "behind",
                "bars",
                "Balanced accuracy against the round's middle, when last judged",
                lambda slot: slot["behind"],
                "clients",
            ),
        ),
    )


def reviews(exchange: Exchange, judges: int) -> Tensor:
    """[J, K] balanced accuracy of each reply's model on what each judge holds out; judges are drawn from all clients."""
    assert exchange.ask is not None
    replies = len(exchange.replies.client)
    chosen = torch.randperm(exchange.clients, generator=exchange.stream())[:judges].tolist()
    pairs = [Pair(judge, place) for judge in chosen for place in range(replies)]
    found = [balanced_accuracy(one) for one in exchange.ask(pairs)["confusion"].cpu()]
    # Who has no samples at all, or did not answer, has no opinion.
    opinions = [torch.nan if score is None else score for score in found]
    return torch.tensor(opinions, dtype=torch.float64).view(len(chosen), replies)


def standing(balanced: Tensor) -> Tensor:
    """[K] median over judges of how far each reply is from the judge's own middle; 0 where nobody judged it."""
    apart = balanced - balanced.nanmedian(1, keepdim=True).values
    return apart.nanmedian(0).values.nan_to_num(0.0)
