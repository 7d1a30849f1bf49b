"""BalanceFL, Shuai et al. 2022 (IPSN), read as spec 3.3 and its released code: classes that a batch lacks stay as received."""

from __future__ import annotations

import torch
import torch.nn.functional as F  # noqa: N812
from torch import Tensor

from counterpoise.core.method import part
from counterpoise.core.part import Batch, ClientData, Outputs, Part, Stats, Visit
from counterpoise.core.tree import Params, Tree
from counterpoise.models.heads import with_features
from counterpoise.registry.schema import NonNegative, Positive

PAPER = "Shuai et al. 2022, BalanceFL (IPSN)"
POOL = 500  # noise vectors that a client draws for a round and uses in turn, as in the released code
ROWS = 4096  # samples whose share of the noise is drawn at once, which bounds the memory
COINS = 997  # a prime, so that a vector of noise meets another coin each time it comes round
OUT = -1e9  # logit of a class that a softmax leaves out; finite, so that padded rows of that class are too


@part(paper=PAPER, off={"restrict": False, "noise": 0.0})
def present_classes(restrict: bool = True, noise: NonNegative = 1.0) -> Part:
    """``CE(head(f + noise e))`` over the classes of the batch alone; e is drawn with chance ``1 - n_y / n_max``, else 0.

    ``e ~ N(0, Sigma)``, Sigma the client's covariances of the features within its classes under the received model, weighted
    by its class counts n: rare classes spread as much as frequent ones. Noise 0 draws none; without `restrict` the softmax
    is over all classes.
    """

    def observe(data: ClientData, visit: Visit) -> Tree:
        coins = torch.rand(COINS, generator=visit.stream)
        return {
            "noise": draw_noise(visit.look(data.rows).features, data.labels, visit.stream),
            "coins": coins,
        }

    def start(params: Params, shared: Tree, memory: Tree, stats: Stats) -> Tree:
        counts = stats.counts.to(stats.lr)
        chance = 1 - counts / counts.max().clamp(min=1)
        drawn = {name: value.to(stats.lr) for name, value in stats.seen.items()}
        return drawn | {"chance": chance, "steps": stats.steps, "batch_size": stats.batch_size}

    def noisy(outputs: Outputs, batch: Batch, slot: Tree) -> Tensor:
        place = places(batch, slot)
        chosen = slot["coins"][place % COINS] < slot["chance"][batch.y]
        added = slot["noise"][place % POOL] * chosen.unsqueeze(-1)
        return outputs.head(outputs.features + noise * added)

    def loss(outputs: Outputs, batch: Batch, slot: Tree) -> Tensor:
        logits = noisy(outputs, batch, slot) if noise else outputs.logits
        if restrict:
            logits = logits.masked_fill(~present(batch, logits), OUT)
        return F.cross_entropy(logits, batch.y, reduction="none")

    if not noise:
        return Part(loss=loss)
    return Part(adapt=with_features("present_classes"), observe=observe, start=start, loss=loss)


@part(paper=PAPER, off={"strength": 0.0})
def knowledge_inheritance(strength: NonNegative = 1.0, temperature: Positive = 2.0) -> Part:
    """``- strength sum_c q_c log p_c`` over the classes that are not in the batch: p now, q of the received model, both ``softmax(z / T)``.

    Beside any loss. Where every class is in the batch it is 0, and so is its slope where one class is missing.
    """

    def start(params: Params, shared: Tree, memory: Tree, stats: Stats) -> Tree:
        return {"received": params}

    def penalty(outputs: Outputs, batch: Batch, slot: Tree) -> Tensor:
        here = present(batch, outputs.logits)
        taught = outputs.at(slot["received"]).logits
        now, then = ((z / temperature).masked_fill(here, OUT) for z in (outputs.logits, taught))
        apart = -(then.softmax(-1) * now.log_softmax(-1)).sum(-1)
        return strength * torch.where(here.all(), 0.0, apart)

    return Part(start=start, penalty=penalty)


@part(paper=PAPER, off={"strength": 0.0})
def smooth_regularisation(strength: NonNegative = 0.002) -> Part:
    """``- strength H(p)``, H the entropy of the softmax p over the classes of the batch: less certain, beside any loss.

    Its mean over the samples, as of every loss; the released code takes the sum over a batch of 64, which is 0.128 here.
    """

    def penalty(outputs: Outputs, batch: Batch, slot: Tree) -> Tensor:
        logits = outputs.logits.masked_fill(~present(batch, outputs.logits), OUT)
        return strength * (logits.softmax(-1) * logits.log_softmax(-1)).sum(-1)

    return Part(penalty=penalty)


def present(batch: Batch, logits: Tensor) -> Tensor:
    """[C] whether a class is among the real samples of a batch."""
    own = batch.is_class(logits.shape[-1])
    return (own & (batch.mask.unsqueeze(-1) > 0)).any(0)


def places(batch: Batch, slot: Tree) -> Tensor:
    """[B] how many samples the client visited in this round before each of the batch, by whole numbers."""
    before: Tensor = batch.steps_done(slot["steps"]).long() * slot["batch_size"].long()
    return torch.arange(len(batch.y), device=batch.y.device) + before


def draw_noise(features: Tensor, labels: Tensor, stream: torch.Generator) -> Tensor:
    """[POOL, F] of ``N(0, sum_c n_c cov_c / n)``, covariances by n_c - 1; a class of one sample has none.

    As sums of the samples' own distances from their class means, so that no root of a singular matrix is taken.
    """
    wide = features.double()
    count = torch.bincount(labels).double().clamp(min=1)
    means = wide.new_zeros(len(count), wide.shape[1]).index_add(0, labels, wide) / count.unsqueeze(1)
    share = (count / (count - 1).clamp(min=1) / max(len(labels), 1)).sqrt()[labels]
    drawn = wide.new_zeros(POOL, wide.shape[1])
    spread = (wide - means[labels]) * share.unsqueeze(1)
    for first in range(0, len(spread), ROWS):
        rows = spread[first : first + ROWS]
        drawn = drawn + torch.randn(POOL, len(rows), generator=stream, dtype=torch.float64) @ rows
    return drawn
