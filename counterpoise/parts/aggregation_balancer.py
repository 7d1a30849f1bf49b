"""FedBal's aggregation balancer: paper 002, equations 5 to 9 and section 5.2, read as spec 2.4 and 8."""

from __future__ import annotations

from typing import Literal, TypeAlias

import torch
from torch import Tensor

from counterpoise.core.method import part
from counterpoise.core.part import Census, Chart, Exchange, Part
from counterpoise.core.tree import Params, Tree, scale_rows
from counterpoise.models.heads import HEAD, WEIGHT, with_head
from counterpoise.parts.feature_balance import FEDBAL
from counterpoise.parts.layer_cosines import cosines
from counterpoise.registry.schema import NonNegative, Positive

Scope: TypeAlias = Literal["all", "classifier"]
Score: TypeAlias = Literal["cosine", "exp"]
Deviation: TypeAlias = Literal["population", "sample"]


@part(paper=FEDBAL)
def aggregation_balancer(
    beta: NonNegative = 3.0,
    temperature: Positive = 1.0,
    combine: Literal["replace", "multiply"] = "replace",
    scope: Scope = "all",
    inverse: bool = False,
    score: Score = "cosine",
    deviation: Deviation = "population",
) -> Part:
    """``p = softmax(v / temperature)``, v_i the cosine of client i's last linear layer with the sent one, at least mean - beta sd.

    Clients whose classifier moved least count most; `inverse` takes -v. Replaces whatever weights the method has, or
    multiplies them. Scope classifier: p only on the last layer's changes, after what other parts do to them; the rest and the
    buffers uniform. The released code is score = "exp", ``softmax(exp(v))``, deviation = "sample", scope = "classifier".
    """

    def shares(cosines: Tensor) -> Tensor:
        return balanced_shares(cosines, beta, temperature, inverse, score, deviation)

    def init(params: Params, census: Census, surveys: Tree) -> Tree:
        none = torch.zeros(census.clients, dtype=torch.float64)
        return {"weights": none, "cosines": none + 1}

    def weigh(weights: Tensor, slot: Tree, exchange: Exchange) -> tuple[Tensor, Tree]:
        """The slot keeps of each client what it was in the last round that asked it: for the charts, and for `treat`."""
        before = torch.full_like(weights, 1 / len(weights)) if combine == "replace" else weights
        found = classifier_cosines(exchange.params, exchange.replies.delta, len(weights))
        balanced = before * shares(found)
        balanced = balanced / balanced.sum()
        kept = {
            "weights": exchange.renew(slot["weights"], balanced),
            "cosines": exchange.renew(slot["cosines"], found),
        }
        return (balanced if scope == "all" else before), kept

    def treat(deltas: Params, slot: Tree, exchange: Exchange) -> Params:
        p = shares(slot["cosines"].cpu()[exchange.replies.client.cpu()])
        factors = p / (p * exchange.weights / exchange.weights.sum()).sum()  # K p where weights are uniform
        head = {name: delta for name, delta in deltas.items() if name.startswith(HEAD)}
        return deltas | scale_rows(head, factors)

    return Part(
        adapt=with_head(bias=False, frozen=True),
        init=init,
        weigh=weigh,
        treat=treat if scope == "classifier" else None,
        charts=(
            Chart("weights", "bars", "Weight of each client, last round", lambda s: s["weights"], "clients"),
            Chart("cosines", "bars", "Cosine of each classifier", lambda s: s["cosines"], "clients"),
        ),
        replaces_weights=combine == "replace",
    )


def classifier_cosines(params: Params, deltas: Params, count: int) -> Tensor:
    """[K] of the last layer's weights, without its bias; a frozen layer, which nobody sends, has not moved: 1."""
    if WEIGHT not in params:
        return torch.ones(count, dtype=torch.float64)
    return cosines(params[WEIGHT], deltas[WEIGHT])


def balanced_shares(
    found: Tensor,
    beta: float = 3.0,
    temperature: float = 1.0,
    inverse: bool = False,
    score: Score = "cosine",
    deviation: Deviation = "population",
) -> Tensor:
    """p [K] of cosines; with K clients none is further than sqrt(K - 1) deviations below the mean, so that 3 needs eleven."""
    correction = 1 if deviation == "sample" and len(found) > 1 else 0
    least = found.mean() - beta * found.std(correction=correction)
    clipped = torch.maximum(found, least) * (-1 if inverse else 1)
    return torch.softmax((clipped.exp() if score == "exp" else clipped) / temperature, 0)
