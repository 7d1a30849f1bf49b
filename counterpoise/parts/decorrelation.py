"""Features that say different things: FedDecorr, Shi et al. 2023, arXiv:2210.00226, read as spec 8."""

from __future__ import annotations

from torch import Tensor

from counterpoise.core.method import part
from counterpoise.core.part import Batch, Outputs, Part
from counterpoise.core.tree import Tree
from counterpoise.models.heads import with_features
from counterpoise.registry.schema import NonNegative

PAPER = "Shi et al. 2023, arXiv:2210.00226"
LEAST_VARIANCE = 1e-8  # added to each feature's: one that does not vary correlates with nothing


@part(paper=PAPER, off={"beta": 0.0})
def decorrelation(beta: NonNegative = 0.1) -> Part:
    """``+ beta / d^2 ||K||_F^2`` on any loss, K the correlations [d, d] of the d features over a batch's samples.

    Clients with few classes train features that are all alike; this keeps them apart. K has ones on its diagonal, except for
    features that do not vary over the batch, whose row is 0: so is all of K for a single sample. The released code is
    stronger than this formula by about the batch size: its 0.1 at batches of 64 is 6.2 here.
    """

    def penalty(outputs: Outputs, batch: Batch, slot: Tree) -> Tensor:
        found = correlations(outputs.features, batch.mask)
        return beta * found.square().mean()

    return Part(adapt=with_features("decorrelation"), penalty=penalty)


def correlations(features: Tensor, mask: Tensor) -> Tensor:
    """[F, F] of features [B, F] over the rows that the mask [B] counts."""
    counted = mask.unsqueeze(-1)
    samples = mask.sum().clamp(min=1)
    gap = (features - (features * counted).sum(0) / samples) * counted
    variance = gap.square().sum(0) / samples
    scores = gap / (variance + LEAST_VARIANCE).sqrt()
    return scores.t() @ scores / samples
