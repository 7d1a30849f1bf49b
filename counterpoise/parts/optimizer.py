"""The plain optimizer's extras, set once under ``[local]`` and the same for every method."""

from __future__ import annotations

from dataclasses import replace

from counterpoise.core.local import Local
from counterpoise.core.method import Method
from counterpoise.core.part import Part, Stats, Step
from counterpoise.core.tree import Params, Tree, add, multiply, norm, zeros


def with_local(method: Method, local: Local) -> Method:
    """The method's parts between the optimizer's: clip, decay, the method, momentum, decoupled decay.

    The clip acts on the raw gradient, never on a mixture with a server's direction; momentum sees what the method made.
    """
    before = [clip(local.clip)] if local.clip is not None else []
    after = [momentum(local.momentum)] if local.momentum else []
    if local.weight_decay:
        (after if local.decoupled else before).append(weight_decay(local.weight_decay))
    return replace(method, parts=(*before, *method.parts, *after))


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
