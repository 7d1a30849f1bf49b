"""Sharpness-aware minimisation: gradients at a point a little uphill."""

from __future__ import annotations

from counterpoise.core.method import part
from counterpoise.core.part import Census, Exchange, Gradient, Part, Reveals, Stats, Step, whole_slot
from counterpoise.core.tree import Params, Tree, add, multiply, norm, subtract, tmap, zeros
from counterpoise.registry.schema import NonNegative

FEDLESAM = "Fan et al. 2024, arXiv:2405.18890"
FEDSMOO = "Sun et al. 2023, arXiv:2305.11584"
TINY = 1e-7


@part(
    paper="Foret et al. 2021, arXiv:2010.01412; in clients: Qu et al. 2022, arXiv:2206.02618",
    off={"rho": 0.0},
)
def sam(rho: NonNegative = 0.1) -> Part:
    """``g <- grad f(y + rho g / ||g||)``, the norm over all parameters together; two passes per step."""

    def gradient(slot: Tree, step: Step) -> tuple[Gradient, Tree]:
        here = step.gradient_at(step.params)
        uphill = add(step.params, here.grads, rho / (norm(here.grads) + TINY))
        # Running statistics are those of the model that is trained, not of the perturbed one.
        return step.gradient_at(uphill)._replace(
            buffers=here.buffers, loss=here.loss, outputs=here.outputs
        ), slot

    return Part(gradient=gradient)


@part(paper=FEDSMOO)
def shared_perturbation(rho: NonNegative = 0.1) -> Part:
    """``g <- grad f(y + e)``, ``e = rho (g - mu_k - s) / ||g - mu_k - s||``, ``mu_k <- mu_k + e - s``, ``s = rho mean mu / ||mean mu||``.

    Clients' perturbations are drawn to one that all share: mu_k is a client's dual variable, kept from round to round, and s
    goes by the mean over the round's clients.
    """

    def init(params: Params, census: Census, surveys: Tree) -> Tree:
        return {"shared": zeros(params)}

    def enroll(params: Params, buffers: Params, classes: int) -> Tree:
        return {"dual": zeros(params)}

    def start(params: Params, shared: Tree, memory: Tree, stats: Stats) -> Tree:
        return {"shared": shared["shared"], "dual": memory["dual"]}

    def gradient(slot: Tree, step: Step) -> tuple[Gradient, Tree]:
        here = step.gradient_at(step.params)
        ahead = subtract(here.grads, add(slot["dual"], slot["shared"]))
        uphill = multiply(ahead, rho / (norm(ahead) + TINY))
        there = step.gradient_at(add(step.params, uphill))
        dual = add(slot["dual"], subtract(uphill, slot["shared"]))
        return there._replace(buffers=here.buffers, loss=here.loss, outputs=here.outputs), slot | {
            "dual": dual
        }

    def finish(delta: Params, slot: Tree, memory: Tree, stats: Stats) -> tuple[Tree, Tree]:
        return {"dual": slot["dual"]}, {"dual": slot["dual"]}

    def update(delta: Params, slot: Tree, exchange: Exchange) -> tuple[Params, Tree]:
        mean = tmap(lambda duals: duals.mean(0), exchange.upload["dual"])
        return delta, {"shared": multiply(mean, rho / (norm(mean) + TINY))}

    return Part(
        init=init,
        enroll=enroll,
        send=whole_slot,
        start=start,
        gradient=gradient,
        finish=finish,
        update=update,
        reveals=Reveals(upload="the sum of its perturbations, a vector as long as the model"),
    )


@part(paper=FEDLESAM, off={"rho": 0.0})
def global_perturbation(rho: NonNegative = 0.1) -> Part:
    """``g <- grad f(y + e)``, ``e = rho (x_{t-1} - x_t) / ||x_{t-1} - x_t||`` constant over a round, 0 in the first."""

    def init(params: Params, census: Census, surveys: Tree) -> Tree:
        return {"previous": params}

    def start(params: Params, shared: Tree, memory: Tree, stats: Stats) -> Tree:
        back = subtract(shared["previous"], params)
        return {"perturbation": multiply(back, rho / norm(back).clamp(min=1e-12))}

    def gradient(slot: Tree, step: Step) -> tuple[Gradient, Tree]:
        return step.gradient_at(add(step.params, slot["perturbation"])), slot

    def update(delta: Params, slot: Tree, exchange: Exchange) -> tuple[Params, Tree]:
        return delta, {"previous": exchange.params}

    return Part(init=init, send=whole_slot, start=start, gradient=gradient, update=update)
