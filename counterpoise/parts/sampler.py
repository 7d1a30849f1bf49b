"""Which samples a client visits."""

from __future__ import annotations

import torch
from torch import Tensor

from counterpoise.core.method import part
from counterpoise.core.part import ClientData, Part, Visit
from counterpoise.core.tree import Tree


@part()
def balanced_sampler() -> Part:
    """Draw with replacement, each class of the client equally often: a sample's chance is ``1 / n_{k,y}``."""

    def prepare(data: ClientData, visit: Visit) -> tuple[ClientData, Tree]:
        return data._replace(chances=balanced_chances(data)), visit.memory

    return Part(prepare=prepare)


def balanced_chances(data: ClientData) -> Tensor:
    """[n] by which every class of a client is drawn equally often."""
    labels = data.labels.cpu()
    return 1.0 / torch.bincount(labels)[labels]
