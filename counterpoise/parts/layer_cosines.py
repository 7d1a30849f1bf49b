"""How far each layer turns in a round: Figure 3 of FedBal (paper 002). It only looks."""

from __future__ import annotations

import torch
from torch import Tensor

from counterpoise.core.method import part
from counterpoise.core.part import Census, Chart, Exchange, Part, layer_names
from counterpoise.core.tree import Params, Tree

TITLE = "Cosine of each layer with the one sent, mean over clients"


@part(paper="FedBal, Figure 3")
def layer_cosines() -> Part:
    """Records ``mean_k cos(W_l, W_l + delta_k)`` of the weights of every layer l; changes nothing.

    delta_k are the clients' changes as they are averaged, after what other parts do to them.
    """

    def init(params: Params, census: Census, surveys: Tree) -> Tree:
        return {"cosines": torch.ones(len(layer_names(params)), dtype=torch.float64)}

    def update(delta: Params, slot: Tree, exchange: Exchange) -> tuple[Params, Tree]:
        means = [
            cosines(exchange.params[name], exchange.replies.delta[name]).mean()
            for name in layer_names(exchange.params)
        ]
        return delta, {"cosines": torch.stack(means)} if means else slot

    chart = Chart("cosines", "bars", TITLE, lambda slot: slot["cosines"], "layers")
    return Part(init=init, update=update, charts=(chart,))


def cosines(sent: Tensor, deltas: Tensor) -> Tensor:
    """[K] float64 on the CPU: the cosine of a tensor with itself after each change [K, ...]; 0 where it has no direction."""
    before = sent.double().flatten()
    # One row after another: a copy of all in float64 would be twice the replies.
    found = torch.stack([_cosine(before, before + row.flatten()) for row in deltas])
    return found.nan_to_num(nan=0.0).clamp(-1, 1).cpu()


def _cosine(one: Tensor, other: Tensor) -> Tensor:
    lengths: Tensor = torch.linalg.vector_norm(one) * torch.linalg.vector_norm(other)
    return torch.dot(one, other) / lengths
