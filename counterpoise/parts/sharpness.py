"""Sharpness-aware minimisation: gradients at a point a little uphill."""

from __future__ import annotations

from counterpoise.core.method import part
from counterpoise.core.part import Gradient, Part, Step
from counterpoise.core.tree import Tree, add, norm
from counterpoise.registry.schema import NonNegative

TINY = 1e-7


@part(
    "sam",
    paper="Foret et al. 2021, arXiv:2010.01412; in clients: Qu et al. 2022, arXiv:2206.02618",
    off={"rho": 0.0},
)
def sam(rho: NonNegative = 0.1) -> Part:
    """``g <- grad f(y + rho g / ||g||)``, the norm over all parameters together; two passes per step."""

    def gradient(slot: Tree, step: Step) -> tuple[Gradient, Tree]:
        here = step.gradient_at(step.params)
        uphill = add(step.params, here.grads, rho / (norm(here.grads) + TINY))
        # Running statistics are those of the model that is trained, not of the perturbed one.
        return step.gradient_at(uphill)._replace(buffers=here.buffers, loss=here.loss), slot

    return Part("sam", gradient=gradient)
