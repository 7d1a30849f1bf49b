"""PCN: Francazi et al. 2023, arXiv:2207.00391, as every client's local optimizer (spec 3.2)."""

from __future__ import annotations

from counterpoise.core.method import Method, Weighting, method
from counterpoise.parts.group_momentum import GroupBatches, group_momentum


@method("pcn", paper="Francazi et al. 2023, arXiv:2207.00391")
def pcn(group_batches: GroupBatches = "shared", weighting: Weighting = "samples") -> Method:
    """``y <- y - lr sum_c g_c / ||g_c||`` over the classes of a batch: as many backward passes a step as classes.

    With separate batches every class of the client has equally many samples in each batch: the paper's oversampled form.
    """
    return Method((group_momentum(1, 0.0, "classes", None, group_batches),), weighting)
