"""Ratio Loss: Wang et al. 2021, arXiv:2008.06217, after the authors' code (spec 3.3, 8)."""

from __future__ import annotations

from typing import Literal

import torch
from torch import Tensor

from counterpoise.core.messages import average_buffers
from counterpoise.core.method import part
from counterpoise.core.part import SILENT, Census, Chart, Exchange, Part, Stats, whole_slot
from counterpoise.core.tree import Params, Tree, add
from counterpoise.models.heads import with_features
from counterpoise.parts.class_gradients import head_gradients
from counterpoise.parts.class_weights import weight_by_class
from counterpoise.parts.counts import SUM_OF_COUNTS, class_counts
from counterpoise.registry.schema import NonNegative

LARGEST = 5000.0  # largest ratio that is used
UNKNOWN = 10.0  # ratio where no weight is clearly of a class, or the other classes do not move it
CLEAR = 0.8  # a weight is clearly of a class where all other classes' updates are below this share of its own
WEIGHTS = Chart("weights", "bars", "Weight of each class", lambda slot: slot["weights"], "classes")


@part(paper="Wang et al. 2021, arXiv:2008.06217", off={"beta": 0.0, "alpha": 1.0})
def ratio_loss(
    alpha: NonNegative = 1.0, beta: NonNegative = 0.1, source: Literal["counts", "auxiliary"] = "counts"
) -> Part:
    """``(alpha + beta R_y) * loss``, R_c how much a class moves its own output weights against the other classes.

    auxiliary: after its authors, from the server's own samples (``data.validation``) at the model after each round; the
    first is plain. Theirs takes the largest positive update of all output rows, at the model the round begins with; equal where
    features are not negative.
    counts: a stand-in without such samples, ``R_c = n_max / n_c`` of all clients' counts; absent classes have R = 1.
    """

    def init(params: Params, census: Census, tallied: Tree) -> Tree:
        if source == "auxiliary":
            return {"weights": torch.ones(census.classes, dtype=torch.float64)}
        counts = tallied["counts"].double().cpu()
        ratios = torch.where(counts > 0, counts.max() / counts.clamp(min=1), 1.0)
        return {"weights": alpha + beta * ratios}

    def start(params: Params, shared: Tree, memory: Tree, stats: Stats) -> Tree:
        return {"weights": shared["weights"].to(stats.lr)}

    def update(delta: Params, slot: Tree, exchange: Exchange) -> tuple[Params, Tree]:
        assert exchange.measure is not None  # a run without server samples is refused
        buffers = average_buffers(exchange.weights, exchange.replies.buffers)
        sums = exchange.measure(add(exchange.params, delta), buffers, head_gradients)
        means = sums["gradients"] / sums["samples"].clamp(min=1).view(-1, 1, 1)
        return delta, {"weights": (alpha + beta * update_ratios(means.double().cpu()))}

    return Part(
        adapt=with_features("ratio_loss: source = 'auxiliary'") if source == "auxiliary" else None,
        tally=class_counts if source == "counts" else None,
        init=init,
        send=whole_slot,
        start=start,
        weight=weight_by_class,
        update=update if source == "auxiliary" else None,
        charts=(WEIGHTS,),
        server_samples=source == "auxiliary",
        reveals=SUM_OF_COUNTS if source == "counts" else SILENT,
    )


def update_ratios(gradients: Tensor) -> Tensor:
    """[C] of gradients [C, C, F] of each class: own against the mean of the others', at weights that are clearly of the class."""
    classes = len(gradients)
    mine = gradients.diagonal().mT  # [C, F]: of class p, at the weights of output p
    others = gradients.transpose(0, 1)[~torch.eye(classes, dtype=torch.bool)].view(classes, classes - 1, -1)
    clear = others.abs().amax(1) < CLEAR * mine.abs()
    own, rest = (mine * clear).sum(1).abs(), (others.mean(1) * clear).sum(1).abs()
    return torch.where(rest > 0, own / rest, UNKNOWN).clamp(max=LARGEST)
