"""Clients that do harm on purpose, simulated: what a robust rule is measured against. None of these is a defence."""

from __future__ import annotations

from collections.abc import Sequence

import torch
from torch import Tensor

from counterpoise.core.messages import Task
from counterpoise.core.method import part
from counterpoise.core.part import Census, Gradient, Part, Stats, Step
from counterpoise.core.shares import floor_share
from counterpoise.core.tree import Params, Tree, multiply, tmap
from counterpoise.registry.schema import Fraction, Positive

ATTACKS = "attacks"  # the setting that makes a client of a simulation an attacker


@part(paper="Li et al. 2024, arXiv:2206.05359", off={"share": 0.0})
def sign_flip_attack(share: Fraction = 0.2, scale: Positive = 1.0) -> Part:
    """A simulated attack, not a defence: ``delta_k <- -scale delta_k`` on the first ``floor(share N)`` clients.

    They walk the mirror image of their honest way, ``x - scale (y - x)``, step by step, so that their replies pass the same
    checks as those of others. List it last: what other parts do to the gradient is mirrored too.
    """

    def init(params: Params, census: Census, surveys: Tree) -> Tree:
        return {"attackers": torch.tensor(floor_share(share, census.clients))}

    def propose(slot: Tree, round: int, cohort: Sequence[int]) -> Sequence[Task]:
        attackers = int(slot["attackers"])
        return [Task(client, {ATTACKS: float(client < attackers)}) for client in cohort]

    def start(params: Params, shared: Tree, memory: Tree, stats: Stats) -> Tree:
        # Whoever is not told to attack is honest.
        return {"received": params, ATTACKS: stats.knobs.get(ATTACKS, torch.zeros_like(stats.lr))}

    def gradient(slot: Tree, step: Step) -> tuple[Gradient, Tree]:
        def honest(here: Tensor, received: Tensor) -> Tensor:
            return torch.where(slot[ATTACKS] > 0, received - (here - received) / scale, here)

        return step.gradient_at(tmap(honest, step.params, slot["received"])), slot

    def adjust(grads: Params, slot: Tree, step: Step) -> tuple[Params, Tree]:
        return multiply(grads, 1 - (1 + scale) * slot[ATTACKS]), slot

    return Part(init=init, propose=propose, start=start, gradient=gradient, adjust=adjust)
