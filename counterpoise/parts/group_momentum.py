"""Gradients of groups of classes, each brought to length one: paper 000 (FedCGNM), equation 1 and Algorithm 1."""

from __future__ import annotations

from typing import Literal, TypeAlias

import numpy as np
import torch
from torch import Tensor

from counterpoise.core.method import part
from counterpoise.core.part import ClientData, Gradient, Part, Stats, Step, Visit
from counterpoise.core.tree import Params, Tree, leaves, tmap
from counterpoise.parts.grouping import Grouping, group_members
from counterpoise.registry.schema import Count, ProperFraction

PAPER = "FedCGNM, Algorithm 1"
SHORTEST = 1e-12  # a momentum shorter than this is not stretched to length one: 0 / 0 is 0

GroupBatches: TypeAlias = Literal["shared", "separate"]


@part(paper=PAPER)
def group_momentum(
    groups: Count = 2,
    beta: ProperFraction = 0.5,
    grouping: Grouping = "variance",
    minority: Count | None = None,
    group_batches: GroupBatches = "shared",
) -> Part:
    """``g <- sum_h m_h / ||m_h||``, ``m_h <- beta m_h + (1 - beta) g_h`` from 0 in each round, over groups of classes.

    g_h is the gradient of ``(1 / B) sum of the losses of the batch's samples in G_h``; the norm is over all parameters.
    A group without a sample in the batch has ``g_h = 0`` and continues along its momentum. The groups are those of least
    variance of the resampled class proportions, even parts ("half"), one per class ("classes"), or the `minority` rarest
    classes against the rest. With separate batches every batch holds equally many samples of each group.
    """

    def members_of(counts: Tensor, owned: Tensor) -> Tensor:
        return group_members(counts, owned, groups, grouping, minority)

    def prepare(data: ClientData, visit: Visit) -> tuple[ClientData, Tree]:
        if not len(data.labels):  # a client that does not train has no groups
            return data, visit.memory
        counts = torch.bincount(data.labels)
        # However often resampling repeats a sample, the client owns it once.
        first = np.unique(data.rows.numpy(), return_index=True)[1]
        members = members_of(counts, torch.bincount(data.labels[first], minlength=len(counts)))
        return data._replace(strata=members.int().argmax(0)[data.labels]), visit.memory

    def start(params: Params, shared: Tree, memory: Tree, stats: Stats) -> Tree:
        members = members_of(stats.counts, stats.owned_now).to(stats.lr)
        # Without momentum no slot: it would be `groups` copies of the model that nothing reads.
        momentum = tmap(lambda p: p.new_zeros(len(members), *p.shape), params)
        return {"members": members} | ({"momentum": momentum} if beta else {})

    def gradient(slot: Tree, step: Step) -> tuple[Gradient, Tree]:
        found = step.group_gradients(slot["members"])
        if not beta:
            return found._replace(grads=sum_of_units(found.grads)), slot
        momentum = tmap(lambda m, g: torch.lerp(g, m, beta), slot["momentum"], found.grads)
        return found._replace(grads=sum_of_units(momentum)), slot | {"momentum": momentum}

    return Part(
        prepare=prepare if group_batches == "separate" else None,
        start=start,
        gradient=gradient,
        assumes_sgd=True,  # every group's step has the length lr
    )


def sum_of_units(vectors: Params) -> Params:
    """``sum_h v_h / ||v_h||`` of vectors [H, ...], each norm over all tensors together."""
    norms = torch.stack([torch.linalg.vector_norm(leaf.flatten(1), dim=1) for leaf in leaves(vectors)])
    scales = 1 / torch.linalg.vector_norm(norms, dim=0).clamp(min=SHORTEST)  # [H]
    return tmap(lambda v: _weighted_sum(scales, v), vectors)


def _weighted_sum(scales: Tensor, vectors: Tensor) -> Tensor:
    """``sum_h s_h v_h``: on a CPU fastest as a product; a GPU would use a tile of it for one row, and fuses this."""
    if vectors.is_cuda:
        return (scales.view(-1, *[1] * (vectors.dim() - 1)) * vectors).sum(0)
    product: Tensor = torch.tensordot(scales, vectors, 1)
    return product
