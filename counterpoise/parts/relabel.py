"""Samples of frequent classes that a model takes for rarer ones get their labels: paper 003 (FedReLa), Algorithm 1, read as spec 2.5."""

from __future__ import annotations

from dataclasses import replace
from typing import Annotated, Literal

import torch
from torch import Tensor

from counterpoise.core.method import part
from counterpoise.core.part import (
    Census,
    Chart,
    ClientData,
    Exchange,
    Part,
    Reveals,
    Stats,
    Visit,
    first_round,
)
from counterpoise.core.shares import floor_share
from counterpoise.core.tree import Params, Tree
from counterpoise.errors import ConfigError, DataError
from counterpoise.registry.schema import Count, Interval, Moment

PAPER = "FedReLa, Algorithm 1"
LEAST_DEVIATION = 1e-6
Percent = Annotated[float, Interval(0, 100, open_high=True)]
Chance = Annotated[float, Interval(0, 1, open_low=True)]
Audit = Literal["off", "share", "flow"]
TOLD = {
    "share": "the share of its labels that changed",
    "flow": "the share of its labels that changed, and how many went from which class to which",
}
SHARE = Chart("share", "bars", "Share of labels that changed", lambda slot: slot["share"], "clients")
FLOW = Chart("flow", "flow", "Labels that changed, from class to class", lambda slot: slot["flow"], "classes")


@part(paper=PAPER, off={"tau": 0.0})
def relabel(
    at: Moment = 0.9,
    tau: Percent = 5.0,
    passes: Count = 1,
    cap: Chance | None = None,
    standardise: bool = True,
    thresholds: list[float] | None = None,
    audit: Audit = "share",
) -> Part:
    """Once, sample i becomes class c with chance ``max(tanh(z_ic - t_c) u_ic, 0)``, for good; of several the likeliest.

    z is the received model's softmax, standardised over the client's samples of one class; t_c leaves at most `tau` percent
    of its samples above it, or is given by `thresholds`; ``u_ic = max(w_c - w_{y_i}, 0)``, ``w = 1 - (n - min n) / (max n - min n)``
    of its class counts n. It happens on a client's first visit after the share `at` of all rounds, or after so many rounds.
    `passes` above 1: softmax averaged over so many augmented passes. `cap` bounds the chance. Without `standardise` the
    chance is ``softmax_c u_ic``, whatever `tau`. `audit`: what the server learns of it, nothing, the share of changed labels
    of each client, or also how many went from which class to which.
    """

    def init(params: Params, census: Census, surveys: Tree) -> Tree:
        _check_thresholds(thresholds, census.classes)
        known = {"first": torch.tensor(first_round(at, census.rounds))}
        if audit != "off":
            known["share"] = torch.zeros(census.clients, dtype=torch.float64)
        if audit == "flow":
            known["flow"] = torch.zeros(census.classes, census.classes, dtype=torch.int64)
        return known

    def draw(data: ClientData, visit: Visit) -> Tensor:
        if not len(data.labels):
            return data.labels
        posterior = posteriors(data, visit, passes)
        given = chances(posterior, data.labels, tau, cap, standardise, thresholds)
        return draw_labels(data.labels, given, visit.stream)

    def prepare(data: ClientData, visit: Visit) -> tuple[ClientData, Tree]:
        if not visit.shared["on"]:
            return data, visit.memory
        labels = visit.memory["labels"] if visit.memory else draw(data, visit)
        _check_same_samples(data, labels)
        return data._replace(labels=labels), {"labels": labels}

    def finish(delta: Params, slot: Tree, memory: Tree, stats: Stats) -> tuple[Tree, Tree]:
        share = stats.moved.sum().to(stats.lr) / stats.owned.sum().clamp(min=1)
        return {"share": share} | ({"flow": stats.moved} if audit == "flow" else {}), memory

    silent = Part(init=init, send=send, prepare=prepare, relabels=True)
    if audit == "off":
        return silent
    charts = (SHARE, FLOW) if audit == "flow" else (SHARE,)
    return replace(silent, finish=finish, update=update, charts=charts, reveals=Reveals(upload=TOLD[audit]))


def send(slot: Tree, round: int) -> Tree:
    return {"on": slot["first"] <= round}


def update(delta: Params, slot: Tree, exchange: Exchange) -> tuple[Params, Tree]:
    """What is audited: the slot has a place for it."""
    share = exchange.renew(slot["share"], exchange.upload["share"])
    if "flow" not in slot:
        return delta, slot | {"share": share}
    clients, flow = exchange.replies.client.cpu(), slot["flow"].cpu()
    new = (slot["share"].cpu()[clients] == 0) & (share[clients] > 0)  # a client's labels change once
    return delta, slot | {"share": share, "flow": flow + exchange.upload["flow"].to(flow)[new].sum(0)}


def chances(
    posterior: Tensor,
    labels: Tensor,
    tau: float,
    cap: float | None,
    standardise: bool,
    thresholds: list[float] | None,
) -> Tensor:
    """[n, C] with which a sample becomes each class."""
    gap = rarity_gap(labels, posterior.shape[1])
    if not standardise:
        return (posterior * gap).clamp(min=0, max=cap)
    z = standard_scores(posterior, labels)
    bar = upper_scores(z, tau) if thresholds is None else z.new_tensor(thresholds)
    return ((z - bar).tanh() * gap).clamp(min=0, max=cap)


def posteriors(data: ClientData, visit: Visit, passes: int) -> Tensor:
    """[n, C] the received model's softmax in double precision; several passes are augmented and averaged."""
    if passes == 1:
        return visit.look(data.rows).logits.double().softmax(-1)
    looks = [visit.look(data.rows, visit.stream).logits.double().softmax(-1) for _ in range(passes)]
    return torch.stack(looks).mean(0)


def standard_scores(posterior: Tensor, labels: Tensor) -> Tensor:
    """[n, C] each column less its mean, by its population deviation, over the samples of the same label.

    The paper divides by n - 1, which a class of one sample does not have; the authors' code divides by n, floored as here.
    """
    count = torch.bincount(labels, minlength=posterior.shape[1]).clamp(min=1).unsqueeze(1)
    zero = posterior.new_zeros(len(count), len(count))
    gap = posterior - (zero.index_add(0, labels, posterior) / count)[labels]
    deviation = (zero.index_add(0, labels, gap.square()) / count).sqrt()
    return gap / deviation.clamp(min=LEAST_DEVIATION)[labels]


def upper_scores(scores: Tensor, tau: float) -> Tensor:
    """[C] the least score of each column that at most ``floor(tau n / 100)`` samples exceed."""
    most = floor_share(tau / 100, len(scores))
    return scores.topk(most + 1, dim=0).values[-1]


def rarity_gap(labels: Tensor, classes: int) -> Tensor:
    """[n, C] how much rarer a class is on this client than the sample's own, from 0 to 1; an absent class is the rarest."""
    count = torch.bincount(labels, minlength=classes).double()
    spread = count.max() - count.min()
    rarity = 1 - (count - count.min()) / spread.clamp(min=1)
    return (rarity - rarity[labels].unsqueeze(1)).clamp(min=0)


def draw_labels(labels: Tensor, given: Tensor, stream: torch.Generator) -> Tensor:
    """[n] of the classes that are drawn, each by its given chance, the likeliest; the old label where none is."""
    drawn = given > torch.rand(given.shape, dtype=torch.float64, generator=stream)
    # In a class of two samples z is 1 or -1 in every column: rounded, such ties go to the first class on every machine.
    likeliest = torch.where(drawn, given, -1.0).round(decimals=9).argmax(1)
    return torch.where(drawn.any(1), likeliest, labels)


def _check_same_samples(data: ClientData, labels: Tensor) -> None:
    if len(labels) != len(data.labels):
        raise DataError(
            f"relabel: the client must have the {len(labels)} samples that it had when it re-labelled them, not {len(data.labels)}"
        )


def _check_thresholds(thresholds: list[float] | None, classes: int) -> None:
    if thresholds is not None and len(thresholds) != classes:
        raise ConfigError(
            f"relabel: thresholds must be one number per class ({classes}), not {len(thresholds)}"
        )
