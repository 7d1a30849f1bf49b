"""One client's round as three pure functions: begin, step, end."""

from __future__ import annotations

from collections.abc import Mapping
from functools import partial
from typing import NamedTuple

import torch
import torch.nn.functional as F  # noqa: N812
from torch import Tensor

from counterpoise.client.differentiate import Differentiate, Loss, functional_gradient
from counterpoise.client.functional import FunctionalModel
from counterpoise.core.loss import cross_entropy
from counterpoise.core.messages import Result
from counterpoise.core.method import Method
from counterpoise.core.part import Batch, Gradient, Objective, Outputs, Part, Stats, Step, call
from counterpoise.core.tree import Params, Tree, add, descend, kept_model, subtract


class Progress(NamedTuple):
    """What a client carries from step to step."""

    params: Params
    buffers: Params
    slots: dict[str, Tree]  # part name -> step slot
    loss: Tensor  # [] sum over the steps so far


def enroll(method: Method, params: Params, buffers: Params, classes: int) -> dict[str, Tree]:
    """A client's memory before its first round."""
    return {
        part.name: part.enroll(params, buffers, classes) for part in method.parts if part.enroll is not None
    }


def begin(
    method: Method,
    params: Params,
    buffers: Params,
    shared: dict[str, Tree],
    memory: dict[str, Tree],
    stats: Stats,
) -> Progress:
    """The received model, or the client's own where it trains alone, and each part's slot for this round."""
    params, buffers = starts_from(method, params, buffers, memory)
    slots = {
        part.name: call(
            part.start,
            {},
            params,
            shared.get(part.name, {}),
            memory.get(part.name, {}),
            _seen_by(part, stats),
        )
        for part in method.parts
    }
    return Progress(params, buffers, slots, torch.zeros_like(stats.lr))


def starts_from(
    method: Method, params: Params, buffers: Params, memory: Mapping[str, Tree]
) -> tuple[Params, Params]:
    """The model that a client's round begins with: the received one, or its own where every client trains alone."""
    alone = method.alone
    if alone is None or alone.own is None:
        return params, buffers
    return alone.own(params, buffers, memory[alone.name])


def step(
    method: Method,
    model: FunctionalModel,
    progress: Progress,
    batch: Batch,
    stats: Stats,
    differentiate: Differentiate = functional_gradient,
) -> Progress:
    """One mini-batch: gradient source, then the chain of adjustments, then ``params - lr * direction``."""
    slots = dict(progress.slots)

    def gradient_at(
        params: Params,
        buffers: Params = progress.buffers,
        objective: Objective | None = None,
        members: Tensor | None = None,
    ) -> Gradient:
        loss = (
            loss_of(method, batch, progress.slots, members)
            if objective is None
            else Loss(lambda outputs: objective(outputs, batch))
        )
        return differentiate(model, params, buffers, batch.x, loss, batch.key)

    by_group = partial(gradient_at, progress.params, progress.buffers, None)
    seen = Step(progress.params, stats, gradient_at, by_group, batch)
    gradient = _source(method, slots, seen)
    seen = seen._replace(found=gradient)
    direction = gradient.grads
    for part in method.parts:
        if part.adjust is not None:
            direction, slots[part.name] = part.adjust(direction, slots[part.name], seen)
    return Progress(
        descend(progress.params, direction, stats.lr), gradient.buffers, slots, progress.loss + gradient.loss
    )


def end(
    method: Method, received: Params, progress: Progress, memory: dict[str, Tree], stats: Stats
) -> Result:
    """The change of the model, each part's upload, and the client's new memory."""
    before, _ = starts_from(method, received, progress.buffers, memory)
    delta = subtract(progress.params, before)
    upload, memory = {}, dict(memory)
    # By the very sum by which a server would take one client's change
    if (alone := method.alone) is not None:
        memory[alone.name] = kept_model(add(before, delta), progress.buffers)
    for part in method.parts:
        if part.finish is not None:
            own = progress.slots[part.name], memory.get(part.name, {}), _seen_by(part, stats)
            sent, kept = part.finish(delta, *own)
            upload.update({part.name: sent} if sent else {})
            memory.update({part.name: kept} if kept else {})
    return Result(delta, progress.buffers, upload, memory, progress.loss / stats.steps.clamp(min=1))


def _seen_by(part: Part, stats: Stats) -> Stats:
    """The stats with what this part observed, and not what others did."""
    return stats._replace(seen=stats.seen.get(part.name, {})) if stats.seen else stats


def batch_loss(
    method: Method, outputs: Outputs, batch: Batch, slots: dict[str, Tree], members: Tensor | None = None
) -> Tensor:
    """Mean over the real samples of each sample's loss times the factors that the parts put on it, plus their penalties.

    With members [H, C]: each group's share of it, over the samples of its classes. A penalty of the whole batch counts as
    the same for each of its samples, so that the shares of all groups still add up to the loss.
    """
    owner = method.owner("loss")
    values = (
        cross_entropy(outputs, batch)
        if owner is None or owner.loss is None
        else owner.loss(outputs, batch, slots[owner.name])
    )
    for part in method.parts:
        if part.weight is not None:
            values = values * part.weight(outputs, batch, slots[part.name])
    for part in method.parts:
        if part.penalty is not None:  # after all weights, which are factors on the loss alone
            values = values + part.penalty(outputs, batch, slots[part.name])
    return (values * _counted(batch, members)).sum(-1) / batch.mask.sum().clamp(min=1)


def _counted(batch: Batch, members: Tensor | None) -> Tensor:
    """[B] 1 for each real sample; for each group [H, B] only for samples of the group's classes."""
    return batch.mask if members is None else members[:, batch.y] * batch.mask


def loss_of(method: Method, batch: Batch, slots: dict[str, Tree], members: Tensor | None = None) -> Loss:
    """The method's loss on a batch, or on each group of classes; plain cross-entropy comes with its gradient."""
    plain = all(part.loss is part.weight is part.penalty is None for part in method.parts)
    return Loss(
        lambda outputs: batch_loss(method, outputs, batch, slots, members),
        (lambda outputs: _cross_entropy_by_logits(outputs, batch, members)) if plain else None,
        None if members is None else len(members),
    )


def _cross_entropy_by_logits(outputs: Outputs, batch: Batch, members: Tensor | None) -> tuple[Tensor, Tensor]:
    """Mean cross-entropy of a batch, and ``(softmax(z) - one hot(y)) / B`` by the same operations as autograd."""
    log_p, chosen = F.log_softmax(outputs.logits, -1), batch.y.unsqueeze(-1)
    share = _counted(batch, members) / batch.mask.sum().clamp(min=1)
    value = -(log_p.gather(-1, chosen).squeeze(-1) * share).sum(-1)
    log_p, chosen = (tensor.expand(*share.shape, -1) for tensor in (log_p, chosen))
    by_log_p = torch.zeros_like(log_p).scatter(-1, chosen, -share.unsqueeze(-1))
    return value, torch._log_softmax_backward_data(by_log_p, log_p, -1, log_p.dtype)


def _source(method: Method, slots: dict[str, Tree], seen: Step) -> Gradient:
    owner = method.owner("gradient")
    if owner is None or owner.gradient is None:
        return seen.gradient_at(seen.params)
    gradient, slots[owner.name] = owner.gradient(slots[owner.name], seen)
    return gradient
