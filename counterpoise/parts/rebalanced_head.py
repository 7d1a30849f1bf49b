"""RedGrape: the shared head is re-balanced on the clients. Yang et al. 2023, arXiv:2301.10394, after the authors' code."""

from __future__ import annotations

import torch
from torch import Tensor

from counterpoise.core.loss import cross_entropy
from counterpoise.core.method import part
from counterpoise.core.part import (
    Batch,
    Census,
    ClientData,
    Exchange,
    Outputs,
    Part,
    Reveals,
    Stats,
    Step,
    Visit,
    whole_slot,
)
from counterpoise.core.tree import Params, Tree
from counterpoise.models.heads import BIAS, WEIGHT, with_plain_head
from counterpoise.parts.class_gradients import (
    TOLD,
    class_gradients,
    gradients_of,
    joined,
    over_holders,
    take_of_each,
)
from counterpoise.parts.personal import both_heads, empty_head, private_step, with_private_head
from counterpoise.registry.schema import Count, NonNegative

REDGRAPE = "Yang et al. 2023, arXiv:2301.10394"
TINY = 1e-12


@part(paper=REDGRAPE)
def rebalanced_head(strength: NonNegative = 0.1, samples: Count = 8) -> Part:
    """``g + strength |g| b / |b|`` for weight and bias of the head; b the gradient of a balanced set of all classes.

    Features and two heads, the shared one and a private one that stays on the client, learn by ``CE(z + V f + v)``; so the shared
    head is free to be re-balanced, and is what is scored. b takes `samples` of each class that the client has so many of, and the
    mean gradient of the clients of the round before for the others; in the first round nothing is known and g is plain.
    The samples' features are of the model as received; the authors compute them anew in every step. V begins at zero.
    """

    def observe(data: ClientData, visit: Visit) -> Tree:
        seen = visit.look(data.rows)
        features = seen.features.to(visit.shared["prototypes"].dtype)
        own = balanced_set(features, data.labels, seen.logits.shape[1], samples, visit.stream)
        return own | class_gradients(features, seen.logits.to(features), data.labels)

    def start(params: Params, shared: Tree, memory: Tree, stats: Stats) -> Tree:
        on = shared["known"].any().to(stats.lr)
        known = shared["known"].to(stats.lr) * (1 - stats.seen["enough"])
        return {
            "private": memory,
            "set": {name: stats.seen[name] for name in ("samples", "enough")},
            "others": {"prototypes": shared["prototypes"], "known": known},
            "strength": strength * on,
        }

    return Part(
        adapt=with_plain_head("rebalanced_head", bias=True),
        init=init,
        enroll=enroll,
        send=whole_slot,
        observe=observe,
        start=start,
        loss=loss,
        adjust=adjust,
        finish=finish,
        update=update,
        own=with_private_head,
        reveals=Reveals(upload=TOLD),
        assumes_sgd=True,  # it takes such steps itself, at the same learning rate
    )


def init(params: Params, census: Census, surveys: Tree) -> Tree:
    head = joined(params)
    return {
        "prototypes": head.new_zeros(len(head), *head.shape),
        "known": torch.zeros(len(head), dtype=torch.bool, device=head.device),
    }


def enroll(params: Params, buffers: Params, classes: int) -> Tree:
    return empty_head(params)


def loss(outputs: Outputs, batch: Batch, slot: Tree) -> Tensor:
    return cross_entropy(outputs._replace(logits=both_heads(outputs, slot["private"])), batch)


def adjust(grads: Params, slot: Tree, step: Step) -> tuple[Params, Tree]:
    balanced = balanced_gradient(joined(step.params), slot["set"], slot["others"])
    turned = _turned(grads, balanced, slot["strength"])
    return grads | turned, slot | {"private": private_step(slot["private"], step)}


def finish(delta: Params, slot: Tree, memory: Tree, stats: Stats) -> tuple[Tree, Tree]:
    return {name: stats.seen[name] for name in ("gradients", "held")}, slot["private"]


def update(delta: Params, slot: Tree, exchange: Exchange) -> tuple[Params, Tree]:
    found, held = over_holders(exchange.upload)
    old, known = slot["prototypes"].cpu(), slot["known"].cpu()
    fresh = torch.where(held.view(-1, 1, 1), found.to(old), old)
    where = slot["prototypes"].device  # steps read them there
    return delta, {"prototypes": fresh.to(where), "known": (known | held).to(where)}


def balanced_set(
    features: Tensor, labels: Tensor, classes: int, samples: int, stream: torch.Generator
) -> Tree:
    """Features [C, T, F] of samples of each class that has so many, zero for the others, and which have [C]."""
    enough = torch.bincount(labels, minlength=classes) >= samples
    places = take_of_each(labels, samples, stream)
    places = places[enough[labels[places]]]
    chosen = features.new_zeros(classes, samples, features.shape[1])
    chosen[enough] = features[places].view(-1, samples, features.shape[1])
    return {"samples": chosen, "enough": enough.to(features)}


def balanced_gradient(head: Tensor, own: Tree, others: Tree) -> Tensor:
    """[C, F + 1]: mean over the classes at hand, and over the others that are known, each by how many classes it stands for."""
    enough, known = own["enough"], others["known"]
    here = torch.einsum("q,qpf->pf", enough, gradients_of(own["samples"], head)) / enough.sum().clamp(min=1)
    there = torch.einsum("q,qpf->pf", known, others["prototypes"]) / known.sum().clamp(min=1)
    share = torch.where(known.sum() > 0, enough.sum() / len(head), torch.ones_like(enough.sum()))
    mixed: Tensor = share * here + (1 - share) * there
    return mixed


def as_long_as(direction: Tensor, other: Tensor) -> Tensor:
    """The direction with the other's norm; 0 where it has none."""
    wanted, length = (torch.linalg.vector_norm(one) for one in (other, direction))
    scaled: Tensor = direction * (wanted / length.clamp(min=TINY))
    return scaled


def _turned(grads: Params, balanced: Tensor, strength: Tensor) -> Params:
    """The gradients of the shared head, each with some of the balanced one, at its own length, added."""
    pieces = {WEIGHT: balanced[:, :-1], BIAS: balanced[:, -1]}
    return {name: grads[name] + strength * as_long_as(b, grads[name]) for name, b in pieces.items()}
