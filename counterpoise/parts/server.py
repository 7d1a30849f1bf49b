"""What the server does with the mean update."""

from __future__ import annotations

from typing import Annotated, Literal

import torch

from counterpoise.core.method import part
from counterpoise.core.part import Census, Chart, Exchange, Part
from counterpoise.core.tree import Params, Tree, add, multiply, norm, tmap, zeros
from counterpoise.registry.schema import Interval, Positive, ProperFraction

Adaptivity = Annotated[float, Interval(0, 1e15, open_low=True)]  # its square fits into a float32


@part(off={"lr": 1.0})
def server_step(lr: Positive = 1.0) -> Part:
    """``x <- x + lr * delta``."""

    def update(delta: Params, slot: Tree, exchange: Exchange) -> tuple[Params, Tree]:
        return multiply(delta, lr), slot

    return Part(update=update)


@part(paper="Hsu et al. 2019, arXiv:1909.06335", off={"beta": 0.0})
def server_momentum(beta: ProperFraction = 0.9) -> Part:
    """``m <- beta m + delta``, ``x <- x + m``."""

    def init(params: Params, census: Census, surveys: Tree) -> Tree:
        return {"momentum": zeros(params)}

    def update(delta: Params, slot: Tree, exchange: Exchange) -> tuple[Params, Tree]:
        momentum = add(delta, slot["momentum"], beta)
        return momentum, {"momentum": momentum}

    chart = Chart("momentum", "curve", "Norm of the server's momentum", lambda slot: norm(slot["momentum"]))
    return Part(init=init, update=update, charts=(chart,))


@part(paper="Reddi et al. 2021, arXiv:2003.00295, Algorithm 2")
def server_adaptive(
    rule: Literal["adam", "yogi"] = "adam",
    lr: Positive = 0.1,
    beta1: ProperFraction = 0.9,
    beta2: ProperFraction = 0.99,
    tau: Adaptivity = 1e-3,
) -> Part:
    """``x <- x + lr m / (sqrt v + tau)`` with ``m <- beta1 m + (1 - beta1) delta`` and v from tau^2 by the rule.

    adam: ``v <- beta2 v + (1 - beta2) delta^2``; yogi: ``v <- v - (1 - beta2) delta^2 sign(v - delta^2)``.
    """

    def init(params: Params, census: Census, surveys: Tree) -> Tree:
        return {"mean": zeros(params), "square": tmap(lambda p: torch.full_like(p, tau**2), params)}

    def adam(v: torch.Tensor, d: torch.Tensor) -> torch.Tensor:
        return beta2 * v + (1 - beta2) * d.square()

    def yogi(v: torch.Tensor, d: torch.Tensor) -> torch.Tensor:
        return v - (1 - beta2) * d.square() * torch.sign(v - d.square())

    def update(delta: Params, slot: Tree, exchange: Exchange) -> tuple[Params, Tree]:
        mean = tmap(lambda m, d: beta1 * m + (1 - beta1) * d, slot["mean"], delta)
        square = tmap(adam if rule == "adam" else yogi, slot["square"], delta)
        return tmap(lambda m, v: lr * m / (v.sqrt() + tau), mean, square), {"mean": mean, "square": square}

    return Part(init=init, update=update)


def optional_server_step(lr: float) -> tuple[Part, ...]:
    """`server_step` as parts of a method: none where the rate is 1."""
    return () if lr == 1 else (server_step(lr),)
