"""Remedies for a long tail that leave training as it is and change the model that is scored and saved."""

from __future__ import annotations

import torch

from counterpoise.core.method import part
from counterpoise.core.part import Census, Part
from counterpoise.core.tree import Params, Tree
from counterpoise.models.heads import BIAS, WEIGHT, with_head
from counterpoise.parts.counts import SUM_OF_COUNTS, class_counts
from counterpoise.registry.schema import NonNegative


@part(paper="Menon et al. 2021, arXiv:2007.07314, section 4.1", off={"tau": 0.0})
def logit_adjustment(tau: NonNegative = 1.0) -> Part:
    """``z_c <- z_c - tau log pi_c`` after training, pi the classes' shares of all clients' samples; none of its own is 1.

    Classes without any sample keep the shift of one sample.
    """

    def init(params: Params, census: Census, tallied: Tree) -> Tree:
        return tallied

    def present(params: Params, buffers: Params, slot: Tree) -> tuple[Params, Params]:
        counts = slot["counts"].double().clamp(min=1)
        shift = tau * (counts / counts.sum()).log()
        # Equal classes need no shift: what is common to all changes no decision, and would only cost digits.
        return params | {BIAS: params[BIAS] - (shift - shift.mean()).to(params[BIAS])}, buffers

    return Part(
        adapt=with_head(bias=True),
        tally=class_counts,
        init=init,
        present=present,
        presents_last=True,
        reveals=SUM_OF_COUNTS,
    )


@part(paper="Kang et al. 2020, arXiv:1910.09217, section 4.2", off={"tau": 0.0})
def tau_norm(tau: NonNegative = 1.0) -> Part:
    """``w_c <- w_c / |w_c|^tau`` in the last layer after training, whose bias is left out as in the paper."""

    def present(params: Params, buffers: Params, slot: Tree) -> tuple[Params, Params]:
        if not tau:
            return params, buffers
        weight = params[WEIGHT]
        length = torch.linalg.vector_norm(weight, dim=1, keepdim=True).clamp(min=1e-12)
        return params | {WEIGHT: weight / length**tau} | (
            {BIAS: torch.zeros_like(params[BIAS])} if BIAS in params else {}
        ), buffers

    return Part(adapt=with_head(bias=False), present=present)
