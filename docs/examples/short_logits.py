"""Short logits: half their squared length as a penalty."""

from __future__ import annotations

from torch import Tensor

from counterpoise.core.method import part
from counterpoise.core.part import Batch, Outputs, Part
from counterpoise.core.tree import Tree
from counterpoise.registry.schema import NonNegative


@part(off={"strength": 0.0})
def short_logits(strength: NonNegative = 0.01) -> Part:
    """``+ strength / 2 |z|^2`` on any loss."""

    def penalty(outputs: Outputs, batch: Batch, slot: Tree) -> Tensor:
        return strength / 2 * outputs.logits.square().sum(-1)  # [B]

    return Part(penalty=penalty)
