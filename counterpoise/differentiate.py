"""Ways to a gradient: one that survives ``vmap``, and a quicker one for a single client. They agree up to rounding."""

from __future__ import annotations

from collections.abc import Callable
from typing import NamedTuple, Protocol

import torch
from torch import Tensor
from torch.func import grad

from counterpoise.chain import Chain
from counterpoise.core.part import Gradient, Outputs
from counterpoise.core.tree import Params
from counterpoise.functional import FunctionalModel


class Loss(NamedTuple):
    """A batch's loss as a function of what the model says of it."""

    value: Callable[[Outputs], Tensor]  # -> []
    by_logits: Callable[[Outputs], tuple[Tensor, Tensor]] | None = (
        None  # -> [], [B, C]: with its gradient, where known
    )


class Differentiate(Protocol):
    """A model's loss on inputs x, differentiated by its parameters."""

    def __call__(
        self, model: FunctionalModel, params: Params, buffers: Params, x: Tensor, loss: Loss
    ) -> Gradient: ...


def functional_gradient(
    model: FunctionalModel, params: Params, buffers: Params, x: Tensor, loss: Loss
) -> Gradient:
    """By ``torch.func``: for stacked clients."""

    def objective(params: Params) -> tuple[Tensor, tuple[Params, Tensor]]:
        outputs, after = model.apply(params, buffers, x, train=True)
        value = loss.value(outputs)
        return value, (after, value)

    grads, (after, value) = grad(objective, has_aux=True)(params)
    return Gradient(grads, after, value)


def direct_gradient(
    model: FunctionalModel, params: Params, buffers: Params, x: Tensor, loss: Loss
) -> Gradient:
    """By hand where the model is a chain of linear layers, else by plain autograd: for one client."""
    if model.chain is not None:
        return _chain_gradient(model.chain, params, x, loss)
    tracked = {name: p.detach().requires_grad_() for name, p in params.items()}
    with torch.enable_grad():
        outputs, after = model.apply(tracked, buffers, model.arrange(x), train=True)
        value = loss.value(outputs)
        grads = torch.autograd.grad(value, list(tracked.values()), materialize_grads=True)
    return Gradient(dict(zip(tracked, grads, strict=True)), after, value.detach())


def _chain_gradient(chain: Chain, params: Params, x: Tensor, loss: Loss) -> Gradient:
    entered = chain.forward(params, x)
    outputs = chain.outputs(entered)
    if loss.by_logits is not None:
        value, logits = loss.by_logits(outputs)
        return Gradient(chain.backward(params, entered, logits, None), {}, value)
    tracked = Outputs(*(tensor.detach().requires_grad_() for tensor in outputs))
    with torch.enable_grad():
        value = loss.value(tracked)
        by_outputs = torch.autograd.grad(value, list(tracked), allow_unused=True)
    logits = torch.zeros_like(outputs.logits) if by_outputs[0] is None else by_outputs[0]
    return Gradient(chain.backward(params, entered, logits, by_outputs[1]), {}, value.detach())
