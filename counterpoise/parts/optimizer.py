"""The plain optimizer's extras, set once under ``[local]`` and the same for every method."""

from __future__ import annotations

import math
from dataclasses import replace

import torch
from torch import Tensor

from counterpoise.core.local import Local
from counterpoise.core.method import Method
from counterpoise.core.part import Part, Stats, Step
from counterpoise.core.tree import Params, Tree, add, multiply, norm, tmap, zeros
from counterpoise.errors import ConfigError

LARGE = 0.02  # a learning rate above this is one for SGD


def with_local(method: Method, local: Local) -> Method:
    """The method's parts between the optimizer's: clip, decay, the method, momentum or Adam, decoupled decay.

    The clip acts on the raw gradient, never on a mixture with a server's direction; momentum and Adam see what the method made.
    """
    _refuse_adaptive(method, local)
    before = [clip(local.clip)] if local.clip is not None else []
    after = [momentum(local.momentum)] if local.momentum else []
    if local.adaptive:
        after = [_adam_of(local)]
    if local.weight_decay:
        outside = local.decoupled or local.optimizer == "adamw"
        (after if outside else before).append(weight_decay(local.weight_decay))
    return replace(method, parts=(*before, *method.parts, *after))


def _refuse_adaptive(method: Method, local: Local) -> None:
    """Parts that know how far a gradient takes a client would be wrong by the scale of each parameter."""
    bound = next((part.name for part in method.parts if part.assumes_sgd), None)
    if local.adaptive and bound is not None:
        raise ConfigError(
            f"method: {bound} assumes local steps of SGD, not local.optimizer = {local.optimizer!r}; use 'sgd', or another method"
        )


def _adam_of(local: Local) -> Part:
    given = {"beta1": local.beta1, "beta2": local.beta2, "eps": local.eps}
    made = adam(**{key: value for key, value in given.items() if value is not None})
    words = f"local.lr = {local.lr:g} is large for {local.optimizer}, whose steps move every parameter by about the learning rate: 0.001 is usual"
    return replace(made, note=(lambda census: words) if local.lr > LARGE else None)


def clip(largest: float) -> Part:
    """``g * min(1, largest / ||g||)``."""

    def adjust(grads: Params, slot: Tree, step: Step) -> tuple[Params, Tree]:
        return multiply(grads, (largest / norm(grads).clamp(min=1e-12)).clamp(max=1.0)), slot

    return Part("clip", adjust=adjust)


def weight_decay(strength: float) -> Part:
    """``g + strength * y``."""

    def adjust(grads: Params, slot: Tree, step: Step) -> tuple[Params, Tree]:
        return add(grads, step.params, strength), slot

    return Part("weight_decay", adjust=adjust)


def momentum(rho: float) -> Part:
    """``m <- rho m + g``, from 0 in each round; the step is along m."""

    def start(params: Params, shared: Tree, memory: Tree, stats: Stats) -> Tree:
        return {"velocity": zeros(params)}

    def adjust(grads: Params, slot: Tree, step: Step) -> tuple[Params, Tree]:
        velocity = add(grads, slot["velocity"], rho)
        return velocity, {"velocity": velocity}

    return Part("momentum", start=start, adjust=adjust)


def adam(beta1: float = 0.9, beta2: float = 0.999, eps: float = 1e-8) -> Part:
    """``m / (1 - beta1^t) / (sqrt(v / (1 - beta2^t)) + eps)``, ``m <- beta1 m + (1 - beta1) g``, ``v <- beta2 v + (1 - beta2) g^2``.

    m, v and t begin at 0 in each round, as is usual where clients come and go: nothing is kept or sent. Kingma & Ba 2015,
    arXiv:1412.6980, Algorithm 1.
    """

    def start(params: Params, shared: Tree, memory: Tree, stats: Stats) -> Tree:
        return {"mean": zeros(params), "square": zeros(params), "steps": torch.zeros_like(stats.lr)}

    def adjust(grads: Params, slot: Tree, step: Step) -> tuple[Params, Tree]:
        steps = slot["steps"] + 1
        mean = tmap(lambda m, g: torch.lerp(m, g, 1 - beta1), slot["mean"], grads)
        square = tmap(lambda v, g: torch.lerp(v, g.square(), 1 - beta2), slot["square"], grads)
        first, second = _unseen(beta1, steps), _unseen(beta2, steps).sqrt()
        direction = tmap(lambda m, v: m / first / (v.sqrt() / second + eps), mean, square)
        return direction, {"mean": mean, "square": square, "steps": steps}

    return Part("adam", start=start, adjust=adjust)


def _unseen(beta: float, steps: Tensor) -> Tensor:
    """``1 - beta^t``, the share of a mean from 0 that is not 0; in single precision the plain form loses half its digits."""
    return -torch.expm1(steps * (math.log(beta) if beta else -math.inf))
