"""Losses that compare what several models say of the same batch."""

from __future__ import annotations

import torch
import torch.nn.functional as F  # noqa: N812
from torch import Tensor, nn

from counterpoise.core.loss import cross_entropy
from counterpoise.core.method import part
from counterpoise.core.part import Batch, Outputs, Part, Reveals, Stats
from counterpoise.core.tree import Params, Tree, add
from counterpoise.errors import ConfigError
from counterpoise.models.heads import has_features
from counterpoise.registry.schema import NonNegative, Positive

PAPER = "Li, He & Song 2021, arXiv:2103.16257"


@part(paper=PAPER, off={"mu": 0.0})
def model_contrastive(mu: NonNegative = 1.0, temperature: Positive = 0.5) -> Part:
    """``-log softmax(z)_y + mu l``, ``l = -log e^{s(f, f_glob)/T} / (e^{s(f, f_glob)/T} + e^{s(f, f_prev)/T})``, s the cosine.

    f are the features of the model that is trained, f_glob of the received one, f_prev of the client's last local one, or of
    the received one on its first visit, where l is log 2 whatever f is. The paper puts a projection head between features
    and the last layer; here the features are those of the model as it is.
    """

    def adapt(module: nn.Module) -> nn.Module:
        if not has_features(module):
            raise ConfigError(
                "model_contrastive compares features; the model must have `features` and `head`"
            )
        return module

    def enroll(params: Params, buffers: Params, classes: int) -> Tree:
        return {"previous": params}

    def start(params: Params, shared: Tree, memory: Tree, stats: Stats) -> Tree:
        return {"received": params, "previous": memory["previous"]}

    def loss(outputs: Outputs, batch: Batch, slot: Tree) -> Tensor:
        values = cross_entropy(outputs, batch)
        likeness = [
            F.cosine_similarity(outputs.features, outputs.at(slot[name]).features, dim=-1) / temperature
            for name in ("received", "previous")
        ]
        pulled = torch.stack(likeness, -1)  # [B, 2]
        return values + mu * (pulled.logsumexp(-1) - pulled[..., 0])

    def finish(delta: Params, slot: Tree, memory: Tree, stats: Stats) -> tuple[Tree, Tree]:
        return {}, {"previous": add(slot["received"], delta)}

    return Part(
        adapt=adapt,
        enroll=enroll,
        start=start,
        loss=loss,
        finish=finish,
        reveals=Reveals(upload="nothing"),
    )
