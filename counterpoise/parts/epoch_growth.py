"""How much longer preparing makes a client's epoch. It only looks, and costs the server's knowledge of one number per client."""

from __future__ import annotations

import torch

from counterpoise.core.method import part
from counterpoise.core.part import Census, Chart, Exchange, Part, Reveals, Stats
from counterpoise.core.tree import Params, Tree

GROWTH = Chart(
    "growth",
    "bars",
    "Length of an epoch, relative to no resampling",
    lambda slot: slot["growth"],
    "clients",
)


@part(paper="FedCGNM, section 3.3")
def epoch_growth() -> Part:
    """Records ``samples that a client trains on / samples that it has`` of each client, when it last took part; changes nothing."""

    def init(params: Params, census: Census, surveys: Tree) -> Tree:
        return {"growth": torch.ones(census.clients)}

    def finish(delta: Params, slot: Tree, memory: Tree, stats: Stats) -> tuple[Tree, Tree]:
        return {"growth": stats.counts.sum().to(stats.lr) / stats.owned.sum().clamp(min=1)}, memory

    def update(delta: Params, slot: Tree, exchange: Exchange) -> tuple[Params, Tree]:
        return delta, {"growth": exchange.renew(slot["growth"], exchange.upload["growth"])}

    return Part(
        init=init,
        finish=finish,
        update=update,
        charts=(GROWTH,),
        reveals=Reveals(upload="how many times longer its epoch is than its data"),
    )
