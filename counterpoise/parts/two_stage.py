"""First the representation, then the classifier: remedies that train in two stages."""

from __future__ import annotations

import torch
from torch import nn

from counterpoise.core.method import part
from counterpoise.core.part import Census, ClientData, Exchange, Part, Stats, Step, Visit
from counterpoise.core.tree import Params, Tree, tmap
from counterpoise.models.heads import HEAD, with_head
from counterpoise.models.init import initialise
from counterpoise.parts.sampler import balanced_chances
from counterpoise.registry.schema import Fraction


@part(paper="Kang et al. 2020, arXiv:1910.09217, section 4.1", off={"start": 1.0})
def crt(start: Fraction = 0.9) -> Part:
    """From round ``start * rounds`` on only the last layer trains, drawn anew and on classes equally often (cRT).

    The rest stays as it is from then on, but for running statistics. As in the paper the data is then drawn with every class
    of a client as likely as any other. At least the last round of several is of this kind. List it after rules of the server
    that remember, such as momentum, so that they do not move it.
    """

    def init(params: Params, census: Census, surveys: Tree) -> Tree:
        # In runs of less than ten rounds the last tenth would be no round at all
        first = census.rounds if start == 1 else min(census.round_at(start), max(census.rounds - 1, 1))
        # A head that no round would train is not drawn
        return {"first": torch.tensor(first), "drawn_until": torch.tensor(census.rounds - 1 if first else 0)}

    def send(slot: Tree, round: int) -> Tree:
        return {"on": slot["first"] <= round}

    def prepare(data: ClientData, visit: Visit) -> tuple[ClientData, Tree]:
        return (data._replace(chances=balanced_chances(data)) if visit.shared["on"] else data), visit.memory

    def begin(params: Params, shared: Tree, memory: Tree, stats: Stats) -> Tree:
        return shared

    def adjust(grads: Params, slot: Tree, step: Step) -> tuple[Params, Tree]:
        still = tmap(lambda g: torch.where(slot["on"], torch.zeros_like(g), g), grads)
        return still | {name: g for name, g in grads.items() if name.startswith(HEAD)}, slot

    def treat(deltas: Params, slot: Tree, exchange: Exchange) -> Params:
        if int(slot["first"]) > exchange.round:
            return deltas
        # Whatever else moves parameters on a client, such as decoupled decay, does not move the rest of the model.
        return _head_alone(deltas)

    def update(delta: Params, slot: Tree, exchange: Exchange) -> tuple[Params, Tree]:
        first, following = int(slot["first"]), exchange.round + 1
        # Momentum of a server rule that is listed before would still move the rest.
        delta = _head_alone(delta) if first < following else delta
        # Not only in the round before the first: nobody may have answered in that.
        if first <= following <= int(slot["drawn_until"]):
            return delta | _to_fresh_head(exchange), slot | {"drawn_until": torch.tensor(0)}
        return delta, slot

    return Part(
        adapt=with_head(bias=False),
        init=init,
        send=send,
        prepare=prepare,
        start=begin,
        adjust=adjust,
        treat=treat,
        update=update,
    )


def _head_alone(deltas: Params) -> Params:
    """Changes of the last layer; the rest stays."""
    return {name: d if name.startswith(HEAD) else torch.zeros_like(d) for name, d in deltas.items()}


def _to_fresh_head(exchange: Exchange) -> Params:
    """The change that leads from the head that was sent to one that is drawn anew."""
    old = {name.removeprefix(HEAD): p for name, p in exchange.params.items() if name.startswith(HEAD)}
    classes, features = old["weight"].shape
    layer = nn.Linear(features, classes, bias="bias" in old)
    initialise(layer, exchange.stream())
    fresh = {name: p.detach().to(old[name]) for name, p in layer.named_parameters()}
    return {f"{HEAD}{name}": p - old[name] for name, p in fresh.items()}
