"""FedCGNM and FedCGN: "Class-grouped-normalized-momentum and faster hyperparameter exploration to tackle class imbalance
in federated learning" (paper 000), Algorithm 1, with the open points as spec 2.1 has them; and PCN (Francazi et al. 2023,
arXiv:2207.00391) as every client's local optimizer (spec 3.2).
"""

from __future__ import annotations

from counterpoise.core.method import Method, Weighting, method
from counterpoise.parts.group_momentum import PAPER, GroupBatches, group_momentum
from counterpoise.parts.grouping import Grouping
from counterpoise.registry.schema import Count, ProperFraction


@method(paper=PAPER)
def fedcgnm(
    groups: Count = 2,
    beta: ProperFraction = 0.5,
    grouping: Grouping = "variance",
    minority: Count | None = None,
    group_batches: GroupBatches = "shared",
    weighting: Weighting = "samples",
) -> Method:
    """``y <- y - lr sum_h m_h / ||m_h||``, a momentum m_h for each of a few groups of classes; use it with `resample`.

    Weight decay from ``[local]`` adds to the direction, coupled or not: it is never inside a group's norm.
    """
    return Method((group_momentum(groups, beta, grouping, minority, group_batches),), weighting)


@method(paper=PAPER)
def fedcgn(
    groups: Count = 2,
    grouping: Grouping = "variance",
    minority: Count | None = None,
    group_batches: GroupBatches = "shared",
    weighting: Weighting = "samples",
) -> Method:
    """``y <- y - lr sum_h g_h / ||g_h||``: FedCGNM without momentum."""
    return Method((group_momentum(groups, 0.0, grouping, minority, group_batches),), weighting)


@method(paper="Francazi et al. 2023, arXiv:2207.00391")
def pcn(group_batches: GroupBatches = "shared", weighting: Weighting = "samples") -> Method:
    """``y <- y - lr sum_c g_c / ||g_c||`` over the classes of a batch: as many backward passes per step as classes.

    With separate batches every class of the client has equally many samples in each batch: the paper's oversampled form.
    """
    return Method((group_momentum(1, 0.0, "classes", None, group_batches),), weighting)
