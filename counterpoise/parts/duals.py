"""A price on each client's loss, raised while the loss stays above the others': CLIMB, spec 3.3 and 8."""

from __future__ import annotations

from collections.abc import Sequence

import torch
import torch.nn.functional as F  # noqa: N812
from torch import Tensor

from counterpoise.core.messages import Task
from counterpoise.core.method import part
from counterpoise.core.part import (
    Batch,
    Census,
    Chart,
    ClientData,
    Exchange,
    Outputs,
    Part,
    Reveals,
    Stats,
    Visit,
)
from counterpoise.core.tree import Params, Tree
from counterpoise.registry.schema import Count, NonNegative, Positive

CLIMB = "Shen et al. 2022, An agnostic approach to federated learning with class imbalance, ICLR"
KNOB = "dual_weight"
DUALS = Chart("duals", "bars", "Dual variable of each client", lambda slot: slot["duals"], "clients")


@part(paper=CLIMB, off={"lr": 0.0})
def loss_duals(
    lr: NonNegative = 1.0, eps: NonNegative = 1.0, every: Count = 5, most: Positive = 100.0
) -> Part:
    """``max(1 + l_k - mean l, 0) * loss``, ``l_k <- clip(l_k + lr (f_k(x) - mean f - eps) / N, 0, most)`` every few rounds.

    f_k is the cross-entropy of the received model on client k's training samples, in evaluation mode. Where only some
    clients answer, they alone change, by the mean over them; mean l is over all N clients. f_k is of the model that
    was sent out, so a step of the duals is one round later than in the authors' code, which asks all clients once more.
    """

    def send(slot: Tree, round: int) -> Tree:
        return {"on": torch.tensor(is_step(round))}

    def is_step(round: int) -> bool:
        return (round + 1) % every == 0

    def update(delta: Params, slot: Tree, exchange: Exchange) -> tuple[Params, Tree]:
        if not is_step(exchange.round):
            return delta, slot
        duals = slot["duals"].cpu()  # those of a resumed run are on the device of its model
        losses, clients = exchange.upload["loss"].to(duals), exchange.replies.client.cpu()
        held = exchange.replies.samples.cpu() > 0  # without samples there is no loss
        raised = duals[clients] + lr * held * (losses - losses[held].mean() - eps) / exchange.clients
        return delta, {"duals": exchange.renew(duals, raised.clamp(0, most))}

    return Part(
        init=init,
        enroll=enroll,
        send=send,
        propose=propose,
        prepare=prepare,
        start=start,
        weight=weight,
        finish=finish,
        update=update,
        charts=(DUALS,),
        reveals=Reveals(upload="the mean loss of the model that it received on its training samples"),
        assumes_sgd=True,  # Adam's steps are the same whatever the factor on a client's loss
    )


def init(params: Params, census: Census, surveys: Tree) -> Tree:
    return {"duals": torch.zeros(census.clients, dtype=torch.float64)}


def enroll(params: Params, buffers: Params, classes: int) -> Tree:
    return {"loss": next(iter(params.values())).new_zeros(())}  # what `prepare` tells `finish`


def propose(slot: Tree, round: int, cohort: Sequence[int]) -> Sequence[Task]:
    factors = loss_factors(slot["duals"].cpu()).tolist()
    return [Task(client, {KNOB: factors[client]}) for client in cohort]


def prepare(data: ClientData, visit: Visit) -> tuple[ClientData, Tree]:
    if not visit.shared["on"] or not len(data.labels):
        return data, visit.memory
    loss = F.cross_entropy(visit.look(data.rows).logits.double(), data.labels)
    return data, {"loss": loss.to(visit.memory["loss"])}


def start(params: Params, shared: Tree, memory: Tree, stats: Stats) -> Tree:
    return {"factor": stats.knobs.get(KNOB, torch.ones_like(stats.lr))}


def weight(outputs: Outputs, batch: Batch, slot: Tree) -> Tensor:
    factor: Tensor = slot["factor"]
    return factor.expand_as(batch.mask)


def finish(delta: Params, slot: Tree, memory: Tree, stats: Stats) -> tuple[Tree, Tree]:
    return {"loss": memory["loss"]}, memory


def loss_factors(duals: Tensor) -> Tensor:
    """[N] the factor on each client's loss; the mean over clients is 1 where none is clipped."""
    return (1 + duals - duals.mean()).clamp(min=0)
