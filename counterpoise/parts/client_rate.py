"""Learning rates of single clients, by what they have to do in a round."""

from __future__ import annotations

from counterpoise.core.method import part
from counterpoise.core.part import Census, ClientData, Part, Visit, whole_slot
from counterpoise.core.tree import Params, Tree


@part(paper="FedWCM-X, Algorithm 3")
def rate_by_steps() -> Part:
    """``lr_k = lr Bhat / B_k``, B_k a client's local steps and Bhat those of a client of mean size: all travel equally far.

    What a part listed earlier adds to a client's samples counts in B_k.
    """

    def init(params: Params, census: Census, surveys: Tree) -> Tree:
        return {"mean_size": census.samples.double().mean()}

    def prepare(data: ClientData, visit: Visit) -> tuple[ClientData, Tree]:
        usual, own = visit.steps(float(visit.shared["mean_size"])), visit.steps(len(data.labels))
        return data._replace(rate=data.rate * usual / max(own, 1)), visit.memory

    return Part(init=init, send=whole_slot, prepare=prepare)
