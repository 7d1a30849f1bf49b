"""A classifier that is fixed from the start: class vectors equally far apart, so that no client's classes can push others away."""

from __future__ import annotations

from torch import Tensor

from counterpoise.core.method import part
from counterpoise.core.part import Batch, Outputs, Part
from counterpoise.core.tree import Tree
from counterpoise.models.frames import NormalisedFrame, ProjectedFrame
from counterpoise.models.heads import replace_head

FEDETF = "Li et al. 2023, arXiv:2303.10058"


@part(paper=FEDETF)
def etf_projection() -> Part:
    """The last layer becomes ``logit = s M^T P f / |P f|``: P and the scale s are trained, the frame M is fixed."""
    return Part(adapt=lambda module: replace_head(module, ProjectedFrame, "etf_projection"))


@part(paper="the FedETF of FedReLa; dot regression: Yang et al. 2022, arXiv:2203.09081")
def dot_regression() -> Part:
    """``w_y^2 / 2 (m_y . h - 1)^2``, ``w_c^2 = (B / classes in the batch) / n_c in the batch``, h = BN(f) / |BN(f)|, m_c fixed."""

    def loss(outputs: Outputs, batch: Batch, slot: Tree) -> Tensor:
        cosine = outputs.logits.gather(-1, batch.y.unsqueeze(-1)).squeeze(-1)
        return batch_weights(batch, outputs.logits.shape[-1])[batch.y] * (cosine - 1).square() / 2

    return Part(adapt=lambda module: replace_head(module, NormalisedFrame, "dot_regression"), loss=loss)


def batch_weights(batch: Batch, classes: int) -> Tensor:
    """[C] by which every class of a batch has the same weight, on average 1; padding does not count."""
    is_class = batch.is_class(classes)
    counts = (is_class * batch.mask.unsqueeze(-1)).sum(0)
    present = (counts > 0).sum().clamp(min=1)
    return batch.mask.sum() / present / counts.clamp(min=1)
