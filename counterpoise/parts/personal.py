"""Models that clients keep for themselves, beside the one that all share."""

from __future__ import annotations

import torch
from torch import Tensor

from counterpoise.core.method import part
from counterpoise.core.part import Outputs, Part, Reveals, Stats, Step
from counterpoise.core.tree import Params, Tree, add, descend, kept_model, own_model, subtract
from counterpoise.models.heads import BIAS, WEIGHT, with_head
from counterpoise.parts.class_gradients import last_layer_gradient
from counterpoise.registry.schema import NonNegative

DITTO = "Li et al. 2021, arXiv:2012.04221, Algorithm 1"
FEDROD = "Chen & Chao 2022, arXiv:2107.00778"


@part(paper=DITTO)
def personal_model(pull: NonNegative = 0.1) -> Part:
    """``v <- v - lr (g(v) + pull (v - x))`` on the batches that train the shared model, which it leaves as it is.

    v begins as the model that the client first receives, x is the one received in this round. The steps are plain: local
    momentum and weight decay belong to the shared model. With ``pull = 0`` it is training alone.
    """

    def enroll(params: Params, buffers: Params, classes: int) -> Tree:
        return kept_model(params, buffers)

    def start(params: Params, shared: Tree, memory: Tree, stats: Stats) -> Tree:
        return {"received": params, "params": memory["params"], "buffers": memory.get("buffers", {})}

    def adjust(grads: Params, slot: Tree, step: Step) -> tuple[Params, Tree]:
        own = slot["params"]
        found = step.gradient_at(own, slot["buffers"])
        direction = add(found.grads, subtract(own, slot["received"]), pull)
        after = descend(own, direction, step.stats.lr)
        return grads, slot | {"params": after, "buffers": found.buffers}

    def finish(delta: Params, slot: Tree, memory: Tree, stats: Stats) -> tuple[Tree, Tree]:
        return {}, kept_model(slot["params"], slot["buffers"])

    return Part(
        enroll=enroll,
        start=start,
        adjust=adjust,
        finish=finish,
        own=own_model,
        reveals=Reveals(upload="nothing"),
        assumes_sgd=True,  # it takes such steps itself, at the same learning rate
    )


@part(paper=FEDROD)
def private_head() -> Part:
    """``cross-entropy(z + W f + b)`` trains only W and b, which stay on the client; f and z are features and logits of the shared model.

    They begin at zero, so that a client that never trained would use the shared model.
    """

    def enroll(params: Params, buffers: Params, classes: int) -> Tree:
        return empty_head(params)

    def start(params: Params, shared: Tree, memory: Tree, stats: Stats) -> Tree:
        return memory

    def adjust(grads: Params, slot: Tree, step: Step) -> tuple[Params, Tree]:
        return grads, private_step(slot, step)

    def finish(delta: Params, slot: Tree, memory: Tree, stats: Stats) -> tuple[Tree, Tree]:
        return {}, slot

    return Part(
        adapt=with_head(bias=True),
        enroll=enroll,
        start=start,
        adjust=adjust,
        finish=finish,
        own=with_private_head,
        reveals=Reveals(upload="nothing"),
        assumes_sgd=True,  # it takes such steps itself, at the same learning rate
    )


def empty_head(params: Params) -> Tree:
    """A private head that adds nothing yet."""
    return {"weight": torch.zeros_like(params[WEIGHT]), "bias": torch.zeros_like(params[BIAS])}


def both_heads(outputs: Outputs, private: Tree) -> Tensor:
    """Logits of the shared and the private head together."""
    weight, bias = private["weight"], private["bias"]
    added: Tensor = outputs.features.to(weight.dtype) @ weight.t() + bias
    return outputs.logits + added


def private_step(private: Tree, step: Step) -> Tree:
    """The private head after the step that the loss of both heads gives it."""
    features = step.outputs.features.to(private["weight"].dtype)
    by = last_layer_gradient(both_heads(step.outputs, private), features, step.batch)
    return descend(private, by, step.stats.lr)


def with_private_head(params: Params, buffers: Params, memory: Tree) -> tuple[Params, Params]:
    """An `own`: the shared head and the private one as one."""
    added = {WEIGHT: params[WEIGHT] + memory["weight"], BIAS: params[BIAS] + memory["bias"]}
    return params | added, buffers
