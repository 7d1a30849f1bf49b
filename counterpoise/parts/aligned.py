"""Classifiers beside a fixed frame, whose row lengths are put right when they are used: FedLoGe, spec 3.3."""

from __future__ import annotations

import torch
from torch import Tensor

from counterpoise.core.method import part
from counterpoise.core.part import Part, Reveals, Stats, Step
from counterpoise.core.tree import Params, Tree, descend
from counterpoise.errors import ConfigError
from counterpoise.models.heads import replace_head
from counterpoise.models.sparse_frame import TwoHeads
from counterpoise.parts.class_gradients import linear_gradient
from counterpoise.registry.schema import Positive

FEDLOGE = "Xiao et al. 2024, arXiv:2401.08977"
WEIGHT, BIAS, SHOWN = "head.aux.weight", "head.aux.bias", "head.shown"
NEVER = -1e10  # logit of a class that a client does not have
SHORTEST = 1e-12


@part(paper=FEDLOGE)
def realigned_heads(length: Positive = 1.7) -> Part:
    """Features learn by a fixed sparse frame; on them, held fixed, `aux` that all share and a private head learn by cross-entropy.

    Scored and saved is `aux` with rows ``length w_c / |w_c|``. The client's own model has rows ``|v_c| w_c / |w_c|`` with its
    private v, and never says a class that the client does not have. A private head begins as the first `aux` received.
    Weight decay and momentum act on `aux`, not on the private head; a clip bounds neither.
    """

    def enroll(params: Params, buffers: Params, classes: int) -> Tree:
        if not {WEIGHT, BIAS} <= params.keys():  # frozen parameters are not among them
            raise ConfigError("realigned_heads must have a `head` that is trained, not a frozen one")
        present = torch.ones(classes, dtype=params[WEIGHT].dtype, device=params[WEIGHT].device)
        return {"weight": params[WEIGHT], "bias": params[BIAS], "present": present}

    def start(params: Params, shared: Tree, memory: Tree, stats: Stats) -> Tree:
        return {"weight": memory["weight"], "bias": memory["bias"]}

    def adjust(grads: Params, slot: Tree, step: Step) -> tuple[Params, Tree]:
        features = step.outputs.features.to(slot["weight"].dtype)
        aux = linear_gradient(step.params[WEIGHT], step.params[BIAS], features, step.batch)
        own = linear_gradient(slot["weight"], slot["bias"], features, step.batch)
        after = descend(slot, own, step.stats.lr)
        # The frame's loss says nothing of `aux`; what is here already is weight decay and what earlier parts add.
        return grads | {WEIGHT: grads[WEIGHT] + aux["weight"], BIAS: grads[BIAS] + aux["bias"]}, after

    def finish(delta: Params, slot: Tree, memory: Tree, stats: Stats) -> tuple[Tree, Tree]:
        return {}, slot | {"present": (stats.counts > 0).to(memory["present"])}

    def present(params: Params, buffers: Params, slot: Tree) -> tuple[Params, Params]:
        rows = length * directions(params[WEIGHT])
        return params | {WEIGHT: rows}, buffers | {SHOWN: torch.ones_like(buffers[SHOWN])}

    def own(params: Params, buffers: Params, memory: Tree) -> tuple[Params, Params]:
        if not memory:  # it never trained
            return params, buffers
        lengths = torch.linalg.vector_norm(memory["weight"], dim=1, keepdim=True)
        bias = torch.where(memory["present"] > 0, memory["bias"], NEVER)
        return params | {WEIGHT: lengths * directions(params[WEIGHT]), BIAS: bias}, buffers

    return Part(
        adapt=lambda module: replace_head(module, TwoHeads, "realigned_heads"),
        enroll=enroll,
        start=start,
        adjust=adjust,
        finish=finish,
        present=present,
        own=own,
        reveals=Reveals(upload="nothing"),
        assumes_sgd=True,  # it takes such steps itself, at the same learning rate
    )


def directions(weight: Tensor) -> Tensor:
    """Rows of length 1."""
    lengths: Tensor = torch.linalg.vector_norm(weight, dim=1, keepdim=True)
    return weight / lengths.clamp(min=SHORTEST)
