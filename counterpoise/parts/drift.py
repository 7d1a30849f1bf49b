"""Local steps that are held together: a pull to the received model, control variates, a regulariser, the server's direction."""

from __future__ import annotations

from counterpoise.core.method import part
from counterpoise.core.part import (
    Census,
    Chart,
    Exchange,
    Part,
    Reveals,
    Stats,
    Step,
    known_below,
    whole_slot,
)
from counterpoise.core.tree import Params, Tree, add, norm, subtract, tmap, zeros
from counterpoise.parts.travel import (
    TRAVELLED,
    MomentumForm,
    follow,
    length_of,
    over_all_clients,
    server_turn,
    travel,
)
from counterpoise.registry.schema import Fraction, NonNegative

PROX = "Li et al. 2020, arXiv:1812.06127"
SCAFFOLD = "Karimireddy et al. 2020, arXiv:1910.06378, Algorithm 1"
CHANGE = "the change of its control variate, a vector as long as the model"
FEDDYN = "Acar et al. 2021, arXiv:2111.04263, Algorithm 1"
FEDCM = "Xu et al. 2021, arXiv:2106.10874, Algorithm 2"


@part(paper=PROX, off={"mu": 0.0})
def prox(mu: NonNegative = 0.01) -> Part:
    """``g + mu (y - x)``: the gradient of ``mu / 2 ||y - x||^2``."""

    def start(params: Params, shared: Tree, memory: Tree, stats: Stats) -> Tree:
        return {"anchor": params}

    def adjust(grads: Params, slot: Tree, step: Step) -> tuple[Params, Tree]:
        return add(grads, subtract(step.params, slot["anchor"]), mu), slot

    return Part(start=start, adjust=adjust)


@part(paper=SCAFFOLD)
def control_variates() -> Part:
    """``g + c - c_k``; then ``c_k <- c_k - c - delta_k / (lr steps)`` and ``c <- c + (1/N) sum_S change of c_k``.

    N is the number of all clients, not of those that answered.
    """

    def init(params: Params, census: Census, surveys: Tree) -> Tree:
        return {"control": zeros(params)}

    def enroll(params: Params, buffers: Params, classes: int) -> Tree:
        return {"control": zeros(params)}

    def start(params: Params, shared: Tree, memory: Tree, stats: Stats) -> Tree:
        return {"correction": subtract(shared["control"], memory["control"])}

    def adjust(grads: Params, slot: Tree, step: Step) -> tuple[Params, Tree]:
        return add(grads, slot["correction"]), slot

    def finish(delta: Params, slot: Tree, memory: Tree, stats: Stats) -> tuple[Tree, Tree]:
        travelled = length_of(stats)
        control = tmap(lambda correction, d: -correction - d / travelled, slot["correction"], delta)
        return {"change": subtract(control, memory["control"])}, {"control": control}

    def update(delta: Params, slot: Tree, exchange: Exchange) -> tuple[Params, Tree]:
        return delta, {"control": add(slot["control"], over_all_clients(exchange, exchange.upload["change"]))}

    return Part(
        init=init,
        enroll=enroll,
        send=whole_slot,
        start=start,
        adjust=adjust,
        finish=finish,
        update=update,
        charts=(
            Chart(
                "control", "curve", "Norm of the server's control variate", lambda slot: norm(slot["control"])
            ),
        ),
        reveals=Reveals(upload=CHANGE),
        assumes_sgd=True,  # delta / (lr steps) is a mean gradient
    )


@part(paper=FEDDYN)
def dynamic_regulariser(alpha: NonNegative = 0.1) -> Part:
    """``g + alpha (y - x + h_k)``, ``h_k <- h_k + y_k - x``; the server adds the mean of all clients' h.

    The rule is about where a client ends, whatever steps take it there: any local optimizer will do. An update that the
    server shortens (`cohort.max_influence`) is shortened in the server's h too, or a client could bend it without bound; the client's own h_k keeps all of it.
    """

    def init(params: Params, census: Census, surveys: Tree) -> Tree:
        return {"drift": zeros(params)}

    def enroll(params: Params, buffers: Params, classes: int) -> Tree:
        return {"drift": zeros(params)}

    def start(params: Params, shared: Tree, memory: Tree, stats: Stats) -> Tree:
        return {"pull": subtract(memory["drift"], params)}

    def adjust(grads: Params, slot: Tree, step: Step) -> tuple[Params, Tree]:
        return add(grads, add(step.params, slot["pull"]), alpha), slot

    def finish(delta: Params, slot: Tree, memory: Tree, stats: Stats) -> tuple[Tree, Tree]:
        return {}, {"drift": add(memory["drift"], delta)}

    def update(delta: Params, slot: Tree, exchange: Exchange) -> tuple[Params, Tree]:
        drift = add(slot["drift"], over_all_clients(exchange, exchange.replies.delta))
        return add(delta, drift), {"drift": drift}

    return Part(
        init=init,
        enroll=enroll,
        start=start,
        adjust=adjust,
        finish=finish,
        update=update,
        reveals=Reveals(upload="nothing"),
    )


@part(paper=FEDCM, off={"alpha": 1.0})
def server_direction(alpha: Fraction = 0.1, momentum_form: MomentumForm = "resolved") -> Part:
    """``alpha g + (1 - alpha) m`` with ``m = -mean delta / (lr mean steps)`` of the round before, by that round's lr.

    The other forms are readings of the paper on FedWCM: see `server_turn`.
    """

    def init(params: Params, census: Census, surveys: Tree) -> Tree:
        return {"direction": zeros(params)}

    def start(params: Params, shared: Tree, memory: Tree, stats: Stats) -> Tree:
        return shared

    def adjust(grads: Params, slot: Tree, step: Step) -> tuple[Params, Tree]:
        return follow(grads, slot["direction"], alpha), slot

    def finish(delta: Params, slot: Tree, memory: Tree, stats: Stats) -> tuple[Tree, Tree]:
        return travel(stats), memory

    def update(delta: Params, slot: Tree, exchange: Exchange) -> tuple[Params, Tree]:
        delta, direction = server_turn(delta, exchange, momentum_form)
        return delta, {"direction": direction}

    return Part(
        init=init,
        send=whole_slot,
        start=start,
        adjust=adjust,
        finish=finish,
        update=update,
        reveals=Reveals(upload=TRAVELLED),
        follows_server=known_below(alpha, 1),
        assumes_sgd=known_below(alpha, 1),  # the direction is on the scale of a gradient
    )
