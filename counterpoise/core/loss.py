"""The loss of a method that sets none of its own."""

from __future__ import annotations

import torch.nn.functional as F  # noqa: N812
from torch import Tensor

from counterpoise.core.part import Batch, Outputs


def cross_entropy(outputs: Outputs, batch: Batch) -> Tensor:
    """``-log softmax(z)_y`` of each sample."""
    return F.cross_entropy(outputs.logits, batch.y, reduction="none")
