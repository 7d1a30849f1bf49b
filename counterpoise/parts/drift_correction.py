"""Clients are corrected by how the server moved: paper 004 (FedSat), equations 5 to 7, read as spec 2.6.1 to 2.6.4."""

from __future__ import annotations

from typing import Literal

from counterpoise.core.method import part
from counterpoise.core.part import Census, Exchange, Part, Reveals, Stats, Step, whole_slot
from counterpoise.core.tree import Params, Tree, add, subtract, tmap, zeros
from counterpoise.parts.drift import CHANGE
from counterpoise.parts.travel import TRAVELLED, length_of, over_all_clients
from counterpoise.registry.schema import NonNegative

PAPER = "FedSat, equations 5 to 7"
Reference = Literal["displacement", "stale", "control"]


@part(paper=PAPER, off={"gamma": 0.0})
def drift_correction(gamma: NonNegative = 1.0, reference: Reference = "displacement") -> Part:
    """``g + gamma (v - v_k)``; then ``v_k <- v_k - v + (x - y_k) / (lr steps)``, with ``v = (x_before - x) / (lr mean steps)``.

    The paper prints v with the opposite sign and the scale lr / epochs, which is a move uphill by next to nothing; its ablation
    scores like SCAFFOLD, so v is on the scale of a gradient here. The server sends the model of the round before.
    stale: the model that the client itself saw last stands for it, so that nothing more is sent, as the paper claims.
    control: v is SCAFFOLD's control variate, ``v <- v + (1/N) sum of the changes of v_k``.
    """

    stale = reference == "stale"

    def init(params: Params, census: Census, surveys: Tree) -> Tree:
        return {"control": zeros(params)} if reference == "control" else _standstill(params)

    def enroll(params: Params, buffers: Params, classes: int) -> Tree:
        return {"drift": zeros(params)} | (_standstill(params) if stale else {})

    def start(params: Params, shared: Tree, memory: Tree, stats: Stats) -> Tree:
        common = (
            shared["control"]
            if reference == "control"
            else _displacement(memory if stale else shared, params)
        )
        correction = subtract(common, memory["drift"])
        return {"correction": correction} | ({"received": params} if stale else {})

    def adjust(grads: Params, slot: Tree, step: Step) -> tuple[Params, Tree]:
        return add(grads, slot["correction"], gamma), slot

    def finish(delta: Params, slot: Tree, memory: Tree, stats: Stats) -> tuple[Tree, Tree]:
        travelled = length_of(stats)
        drift = tmap(lambda c, d: -c - d / travelled, slot["correction"], delta)
        if stale:
            seen = {"before": slot["received"], "travelled": travelled.to(memory["travelled"])}
            return {}, {"drift": drift} | seen
        if reference == "control":
            return {"change": subtract(drift, memory["drift"])}, {"drift": drift}
        return {"travelled": travelled}, {"drift": drift}

    def update(delta: Params, slot: Tree, exchange: Exchange) -> tuple[Params, Tree]:
        if reference == "control":
            change = over_all_clients(exchange, exchange.upload["change"])
            return delta, {"control": add(slot["control"], change)}
        return delta, {"before": exchange.params, "travelled": exchange.upload["travelled"].mean()}

    uploads = {"displacement": TRAVELLED, "stale": "nothing", "control": CHANGE}
    return Part(
        init=None if stale else init,
        enroll=enroll,
        send=None if stale else whole_slot,
        start=start,
        adjust=adjust,
        finish=finish,
        update=None if stale else update,
        reveals=Reveals(upload=uploads[reference]),
        assumes_sgd=gamma > 0,  # v is a mean gradient
    )


def _standstill(params: Params) -> Tree:
    """The model of the round before is the model itself: v is 0."""
    return {"before": params, "travelled": next(iter(params.values())).new_ones(())}


def _displacement(known: Tree, params: Params) -> Params:
    """How the model got from the one before to this one, as a mean gradient."""
    return tmap(lambda before, x: (before - x) / known["travelled"].to(x), known["before"], params)
