"""What a client counts on its test samples: sums that add up over batches and clients; they run under vmap."""

from __future__ import annotations

import torch
import torch.nn.functional as F  # noqa: N812
from torch import Tensor


def confusion(logits: Tensor, y: Tensor, mask: Tensor | None = None) -> Tensor:
    """Counts [C, C] of true class (row) against predicted class (column); samples with mask 0 do not count."""
    classes = logits.shape[-1]
    weight = _weights(y, mask)  # [B]
    # padding may carry any label, so it is sent to a valid cell, where it adds 0
    cell = torch.where(weight > 0, y * classes + logits.argmax(-1), 0)
    counts = torch.zeros(classes * classes, dtype=torch.int64, device=logits.device)
    return counts.scatter_add(0, cell, weight).view(classes, classes)


def calibration(logits: Tensor, y: Tensor, mask: Tensor | None = None, bins: int = 15) -> Tensor:
    """Sums [3, bins] of samples, confidences and hits, for confidence in ``(m / bins, (m + 1) / bins]``.

    A confidence that is NaN, as of a model that diverged, counts as 0.
    """
    confidence, guess = logits.double().softmax(-1).max(-1)
    confidence = confidence.nan_to_num(0.0)
    place = (confidence * bins).ceil().clamp(1, bins) - 1
    members = place[:, None] == torch.arange(bins, device=logits.device)  # [B, bins]
    sums = torch.stack([torch.ones_like(confidence), confidence, (guess == y).double()])  # [3, B]
    # a matrix product, not a scatter: its order of summation is fixed, also on a GPU
    return (sums * _weights(y, mask)) @ members.double()


def cross_entropies(logits: Tensor, y: Tensor, mask: Tensor | None = None) -> Tensor:
    """Sums [2] of samples and of ``-log softmax(z)_y``."""
    weight = _weights(y, mask).double()
    valid = torch.where(weight > 0, y, 0)  # padding may carry any label
    each = torch.where(weight > 0, F.cross_entropy(logits.double(), valid, reduction="none"), 0.0)
    return torch.stack([weight.sum(), each.sum()])


def _weights(y: Tensor, mask: Tensor | None) -> Tensor:
    return torch.ones_like(y) if mask is None else mask.to(torch.int64)
