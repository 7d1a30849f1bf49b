"""Penalties that compare what several models say of the same batch."""

from __future__ import annotations

import torch
import torch.nn.functional as F  # noqa: N812
from torch import Tensor

from counterpoise.core.method import part
from counterpoise.core.part import Batch, Outputs, Part, Reveals, Stats
from counterpoise.core.tree import Params, Tree, add
from counterpoise.models.heads import with_features
from counterpoise.registry.schema import NonNegative, Positive

PAPER = "Li, He & Song 2021, arXiv:2103.16257"


@part(paper=PAPER, off={"mu": 0.0})
def model_contrastive(mu: NonNegative = 1.0, temperature: Positive = 0.5) -> Part:
    """``+ mu l`` on any loss, ``l = -log e^{s(f, f_glob)/T} / (e^{s(f, f_glob)/T} + e^{s(f, f_prev)/T})``, s the cosine.

    f are the features of the model that is trained, f_glob of the received one, f_prev of the client's last local one, or of
    the received one on its first visit, where l is log 2 whatever f is. The paper puts a projection head between features
    and the last layer; here the features are those of the model as it is.
    """

    def enroll(params: Params, buffers: Params, classes: int) -> Tree:
        return {"previous": params}

    def start(params: Params, shared: Tree, memory: Tree, stats: Stats) -> Tree:
        return {"received": params, "previous": memory["previous"]}

    def penalty(outputs: Outputs, batch: Batch, slot: Tree) -> Tensor:
        likeness = [
            F.cosine_similarity(outputs.features, outputs.at(slot[name]).features, dim=-1) / temperature
            for name in ("received", "previous")
        ]
        pulled = torch.stack(likeness, -1)  # [B, 2]
        return mu * (pulled.logsumexp(-1) - pulled[..., 0])

    def finish(delta: Params, slot: Tree, memory: Tree, stats: Stats) -> tuple[Tree, Tree]:
        return {}, {"previous": add(slot["received"], delta)}

    return Part(
        adapt=with_features("model_contrastive"),
        enroll=enroll,
        start=start,
        penalty=penalty,
        finish=finish,
        reveals=Reveals(upload="nothing"),
    )
