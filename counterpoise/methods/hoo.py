"""HOO: Bubeck et al. 2011, JMLR 12, on the tree of rates of FedHOO (paper 000, appendix D.3), as in spec 2.2.15."""

from __future__ import annotations

import torch
from torch import Tensor

from counterpoise.core.method import Method, Weighting, method
from counterpoise.parts.counts import Counts
from counterpoise.parts.rate_search import Bandit, rate_search
from counterpoise.parts.rate_tree import Nodes, back_up, bounds, descend, grow, halves
from counterpoise.parts.resample import resample
from counterpoise.registry.schema import Count, Fraction, NonNegative, Whole

PAPER = "Bubeck et al. 2011, JMLR 12"


@method(paper=PAPER, off={"low": 0.0, "high": 0.0})
def hoo(
    low: Fraction = 0.4,
    high: Fraction = 0.8,
    depth: Count = 5,
    warmup: Whole = 3,
    tau: NonNegative = 1.0,
    rho: Fraction = 0.5,
    clusters: Count | None = None,
    counts: Counts = "local",
    weighting: Weighting = "samples",
) -> Method:
    """One box of rates per round, trained once at its centre: down the tree by the largest ``B = min(U, max child B)``.

    ``U = V + sqrt(2 ln t / N) + tau rho^h``, infinite for a part never visited; V is the mean of the validation scores below
    a node. What FedHOO is compared with: it learns one reward per round instead of 2^K.
    """
    bandit = descent(depth, warmup, tau, rho)
    return Method(
        (resample(counts=counts), rate_search("hoo", bandit, low, high, warmup, clusters)), weighting
    )


def descent(depth: int = 5, warmup: int = 3, tau: float = 1.0, rho: float = 0.5) -> Bandit:
    """The search over the tree alone."""

    def score(nodes: Nodes, t: int) -> Tensor:
        return bounds(nodes, t, tau, rho)

    def probe(nodes: Nodes, t: int) -> Tensor:
        node, place = descend(nodes, score(nodes, t), depth)
        if t < warmup or place is None:
            return (nodes.lower[node] + nodes.upper[node]).unsqueeze(0) / 2
        lower, upper = halves(nodes, node, torch.tensor([place]))
        return (lower + upper) / 2

    def learn(nodes: Nodes, rewards: Tensor, t: int) -> Nodes:
        node, place = descend(nodes, score(nodes, t), depth)
        grown = nodes if place is None else grow(nodes, node, torch.tensor([place]), rewards)
        return back_up(grown, node, rewards)

    return Bandit(score, probe, learn)
