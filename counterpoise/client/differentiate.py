"""The gradient of a loss in two ways: under ``vmap``, and faster for a single client. They agree up to rounding."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, NamedTuple, Protocol

import torch
from torch import Tensor
from torch.func import grad, vjp
from torch.nn.functional import linear

from counterpoise.client.chain import Chain
from counterpoise.client.functional import FunctionalModel
from counterpoise.core.part import Gradient, Outputs
from counterpoise.core.tree import Params, stack


class Loss(NamedTuple):
    """A batch's loss as a function of the model's outputs; or the losses of H groups that add up to it."""

    value: Callable[[Outputs], Tensor]  # -> [], of groups [H]
    # -> [], [B, C]: also its gradient, where known; of groups [H], [H, B, C]
    by_logits: Callable[[Outputs], tuple[Tensor, Tensor]] | None = None
    groups: int | None = None  # H; gradients then have a leading axis over the groups


class Differentiate(Protocol):
    """A model's loss on inputs x, differentiated by its parameters; the key is for a model that draws."""

    def __call__(
        self,
        model: FunctionalModel,
        params: Params,
        buffers: Params,
        x: Tensor,
        loss: Loss,
        key: Tensor | None = None,
    ) -> Gradient: ...


def functional_gradient(
    model: FunctionalModel, params: Params, buffers: Params, x: Tensor, loss: Loss, key: Tensor | None = None
) -> Gradient:
    """By ``torch.func``: for stacked clients."""

    at = model.outputs_at(buffers, x, key)

    def objective(params: Params) -> tuple[Tensor, tuple[Params, Tensor, Tensor, Tensor]]:
        outputs, after = model.apply(params, buffers, x, True, key)
        value = loss.value(outputs._replace(at=at, head=model.head_at(params, buffers, key)))
        return value, (after, value, outputs.logits, outputs.features)

    if loss.groups is None:
        grads, (after, value, logits, features) = grad(objective, has_aux=True)(params)
        return Gradient(grads, after, value, Outputs(logits, features, at))
    pulled: Any = vjp(objective, params, has_aux=True)
    values, pull, (after, _, logits, features) = pulled
    each = torch.eye(loss.groups, dtype=values.dtype, device=values.device)
    # One pass after another: stacked, they would copy the saved activations once per group.
    grads = stack([pull(one)[0] for one in each.unbind()])
    return Gradient(grads, after, values.sum(), Outputs(logits, features, at))


def direct_gradient(
    model: FunctionalModel, params: Params, buffers: Params, x: Tensor, loss: Loss, key: Tensor | None = None
) -> Gradient:
    """By hand where the model is a chain of linear layers, else by plain autograd: for one client."""
    if model.chain is not None:
        return _chain_gradient(model.chain, params, x, loss)
    tracked = {name: p.detach().requires_grad_() for name, p in params.items()}
    with torch.enable_grad():
        arranged = model.arrange(x)
        outputs, after = model.apply(tracked, buffers, arranged, True, key)
        outputs = outputs._replace(at=model.outputs_at(buffers, arranged, key))
        value = loss.value(outputs._replace(head=model.head_at(tracked, buffers, key)))
        grads = _gradients(value, list(tracked.values()))
    said = Outputs(outputs.logits.detach(), outputs.features.detach(), outputs.at)
    return Gradient(dict(zip(tracked, grads, strict=True)), after, value.detach().sum(), said)


def _chain_gradient(chain: Chain, params: Params, x: Tensor, loss: Loss) -> Gradient:
    entered = chain.forward(params, x)
    value, logits, features, head = output_gradients(chain, params, entered, loss)
    backward = chain.backward if loss.groups is None else chain.backward_each
    grads = backward(params, entered, logits, features)
    grads |= {name: grads[name] + extra for name, extra in head.items()}
    return Gradient(grads, {}, value, chain.outputs(entered))


class OutputGradients(NamedTuple):
    """A loss after a pass through a chain, and its gradients by what the pass put out."""

    value: Tensor  # []
    logits: Tensor  # [B, C]
    features: Tensor | None  # [B, F] where the loss may use them
    head: Params  # what the last layer gets besides, where the loss applied it to other features


def output_gradients(chain: Chain, params: Params, entered: list[Tensor], loss: Loss) -> OutputGradients:
    outputs = chain.outputs(entered)
    if loss.by_logits is not None:
        value, logits = loss.by_logits(outputs)
        return OutputGradients(value.sum(), logits, None, {})
    logits, features = (t.detach().requires_grad_() for t in (outputs.logits, outputs.features))
    applied: Params = {}

    def head(features: Tensor) -> Tensor:
        stage = chain.stages[-1]
        names = [name for name in (stage.weight, stage.bias) if name]
        applied.update(
            {name: params[name].detach().requires_grad_() for name in names if name not in applied}
        )
        return linear(features, *(applied[name] for name in names))

    with torch.enable_grad():
        value = loss.value(Outputs(logits, features, outputs.at, head))
        logits, features, *extra = _gradients(value, [logits, features, *applied.values()])
    return OutputGradients(value.detach().sum(), logits, features, dict(zip(applied, extra, strict=True)))


def _gradients(value: Tensor, leaves: Sequence[Tensor]) -> list[Tensor]:
    """Gradients of a number; of several numbers [H], one backward pass each: [H, ...]."""
    if not value.dim():
        return list(torch.autograd.grad(value, leaves, materialize_grads=True))
    rows = [
        torch.autograd.grad(one, leaves, retain_graph=True, materialize_grads=True) for one in value.unbind()
    ]
    return [torch.stack(row) for row in zip(*rows, strict=True)]
