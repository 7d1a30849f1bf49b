"""Gradients of the last layer without a backward pass: of a batch, and by class, what a class alone would change of the head."""

from __future__ import annotations

import torch
import torch.nn.functional as F  # noqa: N812
from torch import Tensor, nn

from counterpoise.core.part import Batch, Outputs
from counterpoise.core.tree import Params, Tree
from counterpoise.models.heads import BIAS, WEIGHT
from counterpoise.models.init import initialise

TOLD = "which classes it has, and for each of them the mean gradient of the head, from which the mean feature of the class can be worked out"


def joined(params: Params) -> Tensor:
    """[C, F + 1] weight and bias of the head as one matrix, so that ``z = W' (f, 1)``."""
    return torch.cat([params[WEIGHT], params[BIAS].unsqueeze(1)], 1)


def apart(head: Tensor, like: Params) -> Params:
    """The parameters that a matrix [C, F + 1] joins."""
    return {WEIGHT: head[:, :-1].to(like[WEIGHT]), BIAS: head[:, -1].to(like[BIAS])}


def extended(features: Tensor) -> Tensor:
    """[..., F + 1] features with a 1 for the bias."""
    return torch.cat([features, torch.ones_like(features[..., :1])], -1)


def linear_gradient(weight: Tensor, bias: Tensor, features: Tensor, batch: Batch) -> Tree:
    """Of the mean cross-entropy of ``softmax(W f + b)`` over the real samples of a batch."""
    return last_layer_gradient(features @ weight.t() + bias, features, batch)


def last_layer_gradient(logits: Tensor, features: Tensor, batch: Batch) -> Tree:
    """Of the mean cross-entropy of the logits, by the layer that adds ``W f + b`` to them."""
    share = batch.mask / batch.mask.sum().clamp(min=1)
    hit = F.one_hot(batch.y, logits.shape[-1])
    error = (logits.softmax(-1) - hit) * share.unsqueeze(-1)  # [B, C]
    return {"weight": error.t() @ features, "bias": error.sum(0)}


def head_gradients(outputs: Outputs, batch: Batch) -> Tree:
    """[C, C, F] gradient of the output weights, summed over the samples of each class; computed from one forward pass."""
    own = F.one_hot(batch.y, outputs.logits.shape[-1]).to(outputs.logits)  # [B, C]
    by_logits = torch.softmax(outputs.logits, -1) - own
    return {
        "gradients": torch.einsum("bq,bp,bf->qpf", own, by_logits, outputs.features),
        "samples": own.sum(0),
    }


def class_gradients(features: Tensor, logits: Tensor, labels: Tensor) -> Tree:
    """Of samples [n, F]: the mean gradient [C, C, F + 1] of the cross-entropy for each class, and which classes there are [C]."""
    inputs = extended(features)
    sums = head_gradients(Outputs(logits, inputs), Batch(inputs, labels, torch.ones_like(inputs[:, 0])))
    means = sums["gradients"] / sums["samples"].clamp(min=1).view(-1, 1, 1)
    return {"gradients": means, "held": (sums["samples"] > 0).to(means)}


def gradients_of(features: Tensor, head: Tensor) -> Tensor:
    """[C, C, F + 1] the same of features [C, m, F], m of each class; stacked, and differentiable."""
    inputs = extended(features)
    own = torch.eye(len(head), dtype=head.dtype, device=head.device).unsqueeze(1)
    error = (inputs @ head.t()).softmax(-1) - own  # [C, m, C]
    return error.transpose(1, 2) @ inputs / features.shape[1]


def over_holders(upload: Tree) -> tuple[Tensor, Tensor]:
    """[C, C, F + 1] plain means over the clients that have the class, in float64, and which classes any of them has [C]."""
    held = upload["held"].double().cpu()  # [K, C]
    total = torch.einsum("kq,kqpf->qpf", held, upload["gradients"].double().cpu())
    holders = held.sum(0)
    return total / holders.clamp(min=1).view(-1, 1, 1), holders > 0


def take_of_each(labels: Tensor, count: int, stream: torch.Generator) -> Tensor:
    """Places of up to `count` samples of each class, drawn without replacement, class after class."""
    order = torch.randperm(len(labels), generator=stream)
    each = [order[labels[order] == c][:count] for c in sorted(set(labels.tolist()))]
    return torch.cat([order[:0], *each])


def draw_head(like: Tensor, stream: torch.Generator) -> Tensor:
    """A head [C, F + 1] drawn anew as torch draws a linear layer."""
    classes, inputs = like.shape
    layer = nn.Linear(inputs - 1, classes)
    initialise(layer, stream)
    return torch.cat([layer.weight.detach(), layer.bias.detach().unsqueeze(1)], 1).to(like)
