"""Factors on each sample's loss by its class; they multiply any loss. Formulas in spec 3.2 and 7."""

from __future__ import annotations

import math
from dataclasses import replace

import torch
from torch import Tensor

from counterpoise.core.method import part
from counterpoise.core.part import Batch, Census, Outputs, Part, Stats, call
from counterpoise.core.tree import Params, Tree
from counterpoise.parts.counts import Counts, from_counts
from counterpoise.registry.schema import Fraction as Share


@part()
def weighted_ce(counts: Counts = "local") -> Part:
    """``w_y * loss``, ``w_c`` proportional to ``1 / n_c``, summing to C over the present classes, 0 for absent ones."""
    return from_counts(lambda n: {"weights": inverse_weights(n)}, counts, weight=weight_by_class)


@part(paper="Cui et al. 2019, arXiv:1901.05555")
def class_balanced(beta: Share = 0.9999, counts: Counts = "local") -> Part:
    """``w_y * loss``, ``w_c`` proportional to ``(1 - beta) / (1 - beta^n_c)``, summing to C over the present classes."""
    return from_counts(
        lambda n: {"weights": inverse_weights(effective_number(n, beta))},
        counts,
        weight=weight_by_class,
    )


@part(paper="Cao et al. 2019, arXiv:1906.07413", off={"start": 1.0})
def deferred_reweighting(start: Share = 0.8, beta: Share = 0.9999, counts: Counts = "local") -> Part:
    """Weights of `class_balanced` from round ``start * rounds`` on, none before: with `ldam` this is LDAM-DRW."""
    balanced = class_balanced(beta, counts)

    def init(params: Params, census: Census, tallied: Tree) -> Tree:
        known: Tree = call(balanced.init, {}, params, census, tallied)
        return known | {"first": torch.tensor(census.round_at(start))}

    def send(slot: Tree, round: int) -> Tree:
        return slot | {"on": slot["first"] <= round}

    def begin(params: Params, shared: Tree, memory: Tree, stats: Stats) -> Tree:
        assert balanced.start is not None
        weights = balanced.start(params, shared, memory, stats)["weights"]
        return {"weights": torch.where(shared["on"], weights, torch.ones_like(weights))}

    return replace(balanced, init=init, send=send, start=begin)


def weight_by_class(outputs: Outputs, batch: Batch, slot: Tree) -> Tensor:
    weights: Tensor = slot["weights"]
    return weights[batch.y]


def inverse_weights(sizes: Tensor) -> Tensor:
    """``1 / sizes`` scaled to sum to C over sizes above 0; equal sizes of all classes give exactly 1."""
    present = sizes > 0
    smallest = torch.where(present, sizes, torch.inf).min()
    inverse = torch.where(present, smallest / sizes.clamp(min=1e-300), 0.0)
    return inverse * (len(sizes) / inverse.sum().clamp(min=1e-300))


def effective_number(n: Tensor, beta: float) -> Tensor:
    """``(1 - beta^n) / (1 - beta)``; at beta = 1 its limit, n."""
    if beta in (0.0, 1.0):
        return n if beta else (n > 0).to(n)
    return torch.expm1(n * math.log(beta)) / math.expm1(math.log(beta))
