"""FedHOO: paper 000, section 3.3 and Algorithm 2, read as spec 2.2."""

from __future__ import annotations

from typing import Literal

import torch
from torch import Tensor

from counterpoise.core.method import Method, Weighting, method
from counterpoise.parts.counts import Counts
from counterpoise.parts.rate_search import Bandit, rate_search
from counterpoise.parts.rate_tree import Nodes, back_up, grow, leaves, optimism, probes
from counterpoise.parts.resample import resample
from counterpoise.registry.schema import Count, Fraction, NonNegative, Whole

PAPER = "FedHOO, Algorithm 2"


@method(paper=PAPER, off={"low": 0.0, "high": 0.0})
def fedhoo(
    low: Fraction = 0.4,
    high: Fraction = 0.8,
    selection: Literal["greedy", "optimistic"] = "greedy",
    reward: Literal["raw", "advantage"] = "raw",
    depth: Count = 5,
    warmup: Whole = 3,
    tau: NonNegative = 1.0,
    alpha: NonNegative = 0.01,
    rho: Fraction | None = None,
    clusters: Count | None = None,
    counts: Counts = "local",
    weighting: Weighting = "samples",
) -> Method:
    """Every client resamples at two rates per round; of the 2^K models they average to, the best on validation is kept.

    The rates are the centres of the halves of a box, the leaf of a tree with the largest B; its 2^K parts become leaves
    with ``V = R``. Greedy, as printed: ``B = V``. Optimistic: ``B = V + tau diam^h + sqrt(alpha ln(t + 1) / N)``, with rho
    ``diam rho^h``. Advantage: R less the round's mean. At the largest depth the same box is probed again. With `clusters`
    clients with similar class proportions share a rate. Add it to any method: ``["fedcgnm", "fedhoo"]``.
    """
    bandit = tree_search(selection, reward, depth, tau, alpha, rho)
    return Method(
        (resample(counts=counts), rate_search("fedhoo", bandit, low, high, warmup, clusters)), weighting
    )


def tree_search(
    selection: Literal["greedy", "optimistic"] = "greedy",
    reward: Literal["raw", "advantage"] = "raw",
    depth: int = 5,
    tau: float = 1.0,
    alpha: float = 0.01,
    rho: float | None = None,
) -> Bandit:
    """The search over the tree alone."""

    def score(nodes: Nodes, t: int) -> Tensor:
        upper = optimism(nodes, t, tau, alpha, rho)
        return upper if selection == "optimistic" else torch.where(leaves(nodes), nodes.value, upper)

    def pick(nodes: Nodes, t: int) -> int:
        return int(torch.where(leaves(nodes), score(nodes, t), -torch.inf).argmax())

    def probe(nodes: Nodes, t: int) -> Tensor:
        return probes(nodes, pick(nodes, t))

    def learn(nodes: Nodes, rewards: Tensor, t: int) -> Nodes:
        leaf = pick(nodes, t)
        kept = rewards - rewards.mean() if reward == "advantage" else rewards
        if int(nodes.depth[leaf]) < depth:
            nodes = grow(nodes, leaf, torch.arange(len(kept)), kept)
        return back_up(nodes, leaf, kept)

    return Bandit(score, probe, learn)
