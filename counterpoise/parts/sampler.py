"""Which samples a client visits."""

from __future__ import annotations

import torch

from counterpoise.core.method import part
from counterpoise.core.part import ClientData, Part, Visit
from counterpoise.core.tree import Tree


@part()
def balanced_sampler() -> Part:
    """Draw with replacement, each class of the client equally often: a sample's chance is ``1 / n_{k,y}``."""

    def prepare(data: ClientData, visit: Visit) -> tuple[ClientData, Tree]:
        return data._replace(chances=1.0 / torch.bincount(data.labels.cpu())[data.labels.cpu()]), visit.memory

    return Part(prepare=prepare)
