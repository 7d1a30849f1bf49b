"""Linear layers one after another, differentiated by hand: a few matrix products without autograd's bookkeeping."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import NamedTuple

import torch
from torch import Tensor, nn

from counterpoise.core.part import Outputs
from counterpoise.core.tree import Params, take
from counterpoise.models.classifier import Classifier
from counterpoise.models.headed import Headed


class Activation(NamedTuple):
    """A function, and its derivative times an incoming gradient, from its own output."""

    apply: Callable[[Tensor], Tensor]
    backward: Callable[[Tensor, Tensor], Tensor]  # gradient, output -> gradient


ACTIVATIONS: dict[type[nn.Module], Activation] = {
    nn.ReLU: Activation(torch.relu, lambda d, h: torch.ops.aten.threshold_backward(d, h, 0)),
    nn.Tanh: Activation(torch.tanh, lambda d, h: torch.ops.aten.tanh_backward(d, h)),
    nn.ELU: Activation(
        nn.functional.elu, lambda d, h: torch.ops.aten.elu_backward(d, 1.0, 1.0, 1.0, True, h)
    ),
}
IDENTITY = Activation(lambda h: h, lambda d, h: d)


class Stage(NamedTuple):
    """``activation(x W^T + b)``."""

    weight: str
    bias: str | None
    activation: Activation


class Chain(NamedTuple):
    """A module that only flattens its input and applies stages; the last has no activation."""

    stages: tuple[Stage, ...]
    names_features: bool  # whether the input of the last stage is the features

    def forward(self, params: Params, x: Tensor) -> list[Tensor]:
        """The input of each stage, then the logits."""
        entered = [x.flatten(1)]
        for weight, bias, activation in self.stages:
            product = entered[-1], params[weight].t()
            entered.append(
                activation.apply(torch.addmm(params[bias], *product) if bias else torch.mm(*product))
            )
        return entered

    def outputs(self, entered: list[Tensor]) -> Outputs:
        features = entered[-2] if self.names_features else entered[-1][:, :0]
        return Outputs(entered[-1], features, lambda params: self.outputs(self.forward(params, entered[0])))

    def backward(
        self, params: Params, entered: list[Tensor], logits: Tensor, features: Tensor | None
    ) -> Params:
        """Gradients of all parameters from those of the logits [B, C] and of the features."""
        grads = {name: torch.empty_like(p) for name, p in params.items()}
        self._write(grads, params, entered, logits, features)
        return grads

    def descend(
        self, params: Params, entered: list[Tensor], logits: Tensor, features: Tensor | None, lr: float
    ) -> None:
        """``params - lr * gradients`` in place, without storing the gradient of a weight."""
        for stage, gradient, inputs in self._backpropagate(params, entered, logits, features):
            params[stage.weight].addmm_(gradient.t(), inputs, alpha=-lr)
            if stage.bias:
                params[stage.bias].sub_(gradient.sum(0), alpha=lr)

    def _backpropagate(
        self, params: Params, entered: list[Tensor], logits: Tensor, features: Tensor | None
    ) -> Iterator[tuple[Stage, Tensor, Tensor]]:
        """From the last stage to the first: the gradient of its product and its input; the stage may then be changed."""
        gradient = logits
        for place in reversed(range(len(self.stages))):
            stage = self.stages[place]
            here = stage.activation.backward(gradient, entered[place + 1])
            if place:
                gradient = here @ params[stage.weight]
                if self.names_features and features is not None and place == len(self.stages) - 1:
                    gradient = gradient + features
            yield stage, here, entered[place]

    def backward_each(
        self, params: Params, entered: list[Tensor], logits: Tensor, features: Tensor | None
    ) -> Params:
        """The same [H, ...] from gradients [H, B, C] of H losses; each pass leaves out the samples that its loss ignores."""
        concerned = logits.any(-1) if features is None else logits.any(-1) | features.any(-1)  # [H, B]
        grads = {name: p.new_empty(len(logits), *p.shape) for name, p in params.items()}
        for loss in range(len(logits)):
            rows = torch.nonzero(concerned[loss]).flatten()
            by_features = None if features is None else features[loss, rows]
            seen = [values[rows] for values in entered]
            self._write(take(grads, loss), params, seen, logits[loss, rows], by_features)
        return grads

    def _write(
        self, grads: Params, params: Params, entered: list[Tensor], logits: Tensor, features: Tensor | None
    ) -> None:
        """Write gradients into given tensors, so that those of several losses need no copy."""
        for stage, gradient, inputs in self._backpropagate(params, entered, logits, features):
            torch.mm(gradient.t(), inputs, out=grads[stage.weight])
            if stage.bias:
                torch.sum(gradient, 0, out=grads[stage.bias])


def chain_of(module: nn.Module) -> Chain | None:
    """A module as a chain, or None where it has any other layer."""
    stages: list[Stage] = []
    if _is_hooked(module):
        return None
    for name, layer in _layers(module):
        if type(layer) is nn.Linear:
            stages.append(
                Stage(f"{name}.weight", f"{name}.bias" if layer.bias is not None else None, IDENTITY)
            )
        elif type(layer) in ACTIVATIONS and stages and stages[-1].activation is IDENTITY:
            if isinstance(layer, nn.ELU) and layer.alpha != 1:
                return None
            stages[-1] = stages[-1]._replace(activation=ACTIVATIONS[type(layer)])
        elif not (isinstance(layer, nn.Identity) or (isinstance(layer, nn.Flatten) and not stages)):
            return None
    known = {name for stage in stages for name in (stage.weight, stage.bias) if name}
    whole = known == {name for name, p in module.named_parameters() if p.requires_grad} and not list(
        module.buffers()
    )
    return (
        Chain(tuple(stages), type(module) in (Classifier, Headed))
        if stages and whole and stages[-1].activation is IDENTITY
        else None
    )


def _layers(module: nn.Module, prefix: str = "") -> Iterator[tuple[str, nn.Module]]:
    """Layers in the order in which a plain sequence, or one that ends in a head, applies them."""
    if type(module) in (nn.Sequential, Classifier, Headed):
        for name, child in module._modules.items():  # named_children leaves out a layer's second use
            if child is not None:
                yield from _layers(child, f"{prefix}{name}.")
    else:
        yield prefix.removesuffix("."), module


def _is_hooked(module: nn.Module) -> bool:
    """Whether a layer has forward or backward hooks."""
    hooks = ("_forward_hooks", "_forward_pre_hooks", "_backward_hooks", "_backward_pre_hooks")
    return any(getattr(layer, name) for layer in module.modules() for name in hooks)
