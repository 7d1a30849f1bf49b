"""Losses per sample; the round takes their mean. Formulas in spec 3.2."""

from __future__ import annotations

import torch
import torch.nn.functional as F  # noqa: N812
from torch import Tensor

from counterpoise.core.loss import cross_entropy as plain_cross_entropy
from counterpoise.core.method import part
from counterpoise.core.part import Batch, Outputs, Part
from counterpoise.core.tree import Tree
from counterpoise.models.heads import CosineHead, replace_head
from counterpoise.parts.counts import Counts, from_counts
from counterpoise.registry.schema import Fraction, NonNegative, Positive

FEDRS = "Li & Zhan 2021, FedRS: Federated Learning with Restricted Softmax (KDD)"
ABSENT = 1e-8  # what FedLC takes as the count of a class a client does not have
CLOSE_TO_ZERO = 1e-12


@part()
def cross_entropy() -> Part:
    """``-log softmax(z)_y``: what every method uses unless another loss is listed."""

    def loss(outputs: Outputs, batch: Batch, slot: Tree) -> Tensor:
        return plain_cross_entropy(outputs, batch)

    return Part(loss=loss)


@part(paper="Lin et al. 2017, arXiv:1708.02002", off={"gamma": 0.0})
def focal(gamma: NonNegative = 2.0) -> Part:
    """``-(1 - p_y)^gamma log p_y``: easy samples count less."""

    def loss(outputs: Outputs, batch: Batch, slot: Tree) -> Tensor:
        log_p = F.log_softmax(outputs.logits, -1).gather(-1, batch.y.unsqueeze(-1)).squeeze(-1)
        # Below gamma = 1 the power has an infinite slope at p = 1.
        doubt = (-torch.expm1(log_p)).clamp(min=CLOSE_TO_ZERO)
        return -doubt.pow(gamma) * log_p

    return Part(loss=loss)


@part(
    paper="Ren et al. 2020, arXiv:2007.10740; PriorCE of Hong et al. 2021, arXiv:2012.00321",
    off={"tau": 0.0},
)
def balanced_softmax(tau: NonNegative = 1.0, counts: Counts = "local") -> Part:
    """``CE(z + tau log n)``: logits carry the log of the class prior while training; counts are floored at 1."""

    def constants(n: Tensor) -> Tree:
        floored = n.clamp(min=1)
        # Softmax ignores a common shift; relative to the largest class, equal counts give exactly plain CE.
        return {"shift": tau * (floored / floored.max()).log()}

    def loss(outputs: Outputs, batch: Batch, slot: Tree) -> Tensor:
        return F.cross_entropy(outputs.logits + slot["shift"], batch.y, reduction="none")

    return from_counts(constants, counts, loss=loss)


@part(paper="Cao et al. 2019, arXiv:1906.07413")
def ldam(max_margin: NonNegative = 0.5, scale: Positive = 30.0, counts: Counts = "local") -> Part:
    """``CE(scale (z - m_y e_y))``, ``m_c = max_margin n_c^(-1/4) / max``, on a cosine head; see `deferred_reweighting`.

    The maximum is over the classes that are present; an absent class counts as one sample.
    """

    def constants(n: Tensor) -> Tree:
        margin = n.clamp(min=1).pow(-0.25)
        largest = torch.where(n > 0, margin, 0.0).max().clamp(min=CLOSE_TO_ZERO)
        return {"margin": max_margin * margin / largest}

    def loss(outputs: Outputs, batch: Batch, slot: Tree) -> Tensor:
        own_class = batch.is_class(outputs.logits.shape[-1])
        return F.cross_entropy(
            scale * (outputs.logits - own_class * slot["margin"]), batch.y, reduction="none"
        )

    return from_counts(constants, counts, loss=loss, adapt=lambda module: replace_head(module, CosineHead))


@part(paper="Zhang et al. 2022, arXiv:2209.00189", off={"tau": 0.0})
def fedlc(tau: NonNegative = 1.0) -> Part:
    """``CE(z - tau n_c^(-1/4))`` with local counts; an absent class (n = 1e-8) all but leaves the softmax.

    The paper's denominator leaves out the true class, which collapses; this is the standard softmax.
    """

    def constants(n: Tensor) -> Tree:
        shift = -tau * n.clamp(min=ABSENT).pow(-0.25)
        return {"shift": shift - shift.max()}

    def loss(outputs: Outputs, batch: Batch, slot: Tree) -> Tensor:
        return F.cross_entropy(outputs.logits + slot["shift"], batch.y, reduction="none")

    return from_counts(constants, "local", loss=loss)


@part(paper=FEDRS, off={"alpha": 1.0})
def restricted_softmax(alpha: Fraction = 0.5) -> Part:
    """``CE(s z)``, ``s_c = alpha`` for a class that the client does not have, else 1: absent classes are pushed away less."""

    def constants(n: Tensor) -> Tree:
        return {"scale": torch.where(n > 0, 1.0, alpha)}

    def loss(outputs: Outputs, batch: Batch, slot: Tree) -> Tensor:
        return F.cross_entropy(slot["scale"] * outputs.logits, batch.y, reduction="none")

    return from_counts(constants, "local", loss=loss)
