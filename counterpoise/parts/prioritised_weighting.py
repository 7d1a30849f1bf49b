"""Clients weighed by how other clients judge their models: paper 004 (FedSat), equations 8 to 22, read as spec 2.6.9 to 2.6.18."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Annotated, Literal, NamedTuple

import torch
from torch import Tensor

from counterpoise.core.method import part
from counterpoise.core.part import Census, Chart, Exchange, Pair, Part
from counterpoise.core.rng import generator
from counterpoise.core.tree import Params, Tree
from counterpoise.parts.held_out import JUDGED, note_training_samples
from counterpoise.registry.schema import Count, Fraction, NonNegative, Positive

PAPER = "FedSat, equations 8 to 22"
SLACK = 1e-9  # equal errors may differ in their last bits
LEAST_ERROR = 1e-8
ErrorNorm = Literal["client", "round"]
Knowledge = Literal["hits", "recall", "nothing"]

CHARTS = (
    Chart(
        "weights",
        "bars",
        "Weight in the last round; 0: not selected",
        lambda slot: slot["weights"],
        "clients",
        every_round=True,  # who is selected, and how few they are, is the first thing to look at
    ),
    Chart("errors", "bars", "Error score when last judged", lambda slot: slot["errors"], "clients"),
    Chart(
        "class_errors",
        "bars",
        "Error scores of the last round; the largest is the priority class",
        lambda slot: slot["class_errors"],
        "classes",
    ),
)


@part(paper=PAPER)
def prioritised_weighting(
    workers: Annotated[Count, "clients that judge each model, its own among them"] = 15,
    threshold: Annotated[Positive, "clients with errors up to this multiple of the mean are kept"] = 1.0,
    error_norm: Annotated[
        ErrorNorm, "rates are divided by the largest of the client, as printed, or of the round"
    ] = "client",
    miss_weight: NonNegative = 0.3,
    false_alarm_weight: NonNegative = 0.2,
    floor: Annotated[Fraction, "errors count as at least this share of their mean"] = 0.0,
    priority: Annotated[
        Knowledge,
        "what counts of the priority class: its hits, as printed, its recall in percent, or nothing",
    ] = "hits",
) -> Part:
    """``theta_k ~ sum_i ACC_ki max(1, TP_k[PC]) / sum_i E_ki`` over clients whose errors are at most the mean; PC has the largest error.

    ``E_i = miss_weight FNR_i / max FNR + false_alarm_weight FPR_i / max FPR`` from the counts that the workers send of the model
    on what they hold out. They replace the weights of earlier rules. As printed (error_norm = "client") E says how even errors are,
    not how large: a client that always predicts one class can get all weight.
    """

    def weigh(weights: Tensor, slot: Tree, exchange: Exchange) -> tuple[Tensor, Tree]:
        if exchange.ask is None:  # a search compares models before anybody judges them
            return weights, slot
        counts = judge(exchange, workers)
        errors = error_scores(counts, error_norm, miss_weight, false_alarm_weight)
        found = priority_weights(counts, errors, threshold, floor, priority)
        return found.to(weights), {
            "weights": exchange.renew(torch.zeros_like(slot["weights"]), found),
            "errors": exchange.renew(slot["errors"], errors.sum(1)),
            "class_errors": errors.sum(0).to(slot["class_errors"]),
        }

    return Part(
        init=init,
        weigh=weigh,
        note=note_training_samples,
        replaces_weights=True,
        reveals=JUDGED,
        charts=CHARTS,
    )


def init(params: Params, census: Census, surveys: Tree) -> Tree:
    unknown = torch.zeros(census.clients, dtype=torch.float64)
    classes = torch.zeros(census.classes, dtype=torch.float64)
    return {"weights": unknown, "errors": unknown.clone(), "class_errors": classes}


class Judged(NamedTuple):
    """Counts of each model's classes, added over its workers."""

    hits: Tensor  # [K, C] TP
    support: Tensor  # [K, C] T
    predicted: Tensor  # [K, C] Z

    @property
    def accuracy(self) -> Tensor:
        """[K, C] share of each class's samples that are found; 0 without samples."""
        return self.hits / self.support.clamp(min=1)


def judge(exchange: Exchange, workers: int) -> Judged:
    """What the workers of each reply count of its model."""
    assert exchange.ask is not None
    pairs = draw_workers(exchange, workers)
    found = exchange.ask(pairs)["confusion"].double().cpu()  # [P, C, C]
    model = torch.tensor([pair.model for pair in pairs])
    total = found.new_zeros(len(exchange.replies.client), *found.shape[1:]).index_add_(0, model, found)
    return Judged(total.diagonal(dim1=1, dim2=2), total.sum(2), total.sum(1))


def draw_workers(exchange: Exchange, workers: int) -> list[Pair]:
    """Each reply's own client and `workers - 1` others: of clients outside the cohort, used once each, then of all others."""
    cohort = exchange.replies.client.tolist()
    idle = _without(range(exchange.clients), cohort)
    pairs: list[Pair] = []
    for place, client in enumerate(cohort):
        stream = generator(exchange.seed, f"server {exchange.part}", exchange.round, client)
        chosen = _draw(idle, workers - 1, stream)
        idle = _without(idle, chosen)
        if not idle:  # nobody is left who has not worked: everybody else may again
            others = _without(range(exchange.clients), [client, *chosen])
            chosen += _draw(others, workers - 1 - len(chosen), stream)
        pairs += [Pair(worker, place) for worker in (client, *chosen)]
    return pairs


def _without(clients: Iterable[int], gone: Iterable[int]) -> list[int]:
    away = set(gone)
    return [client for client in clients if client not in away]


def _draw(pool: list[int], count: int, stream: torch.Generator) -> list[int]:
    return [pool[place] for place in torch.randperm(len(pool), generator=stream)[:count].tolist()]


def error_scores(counts: Judged, norm: ErrorNorm, miss_weight: float, false_alarm_weight: float) -> Tensor:
    """[K, C] weighted sum of miss and false alarm rates, each relative to the largest; 0 where that is 0."""
    hits, support, predicted = counts
    missed = torch.where(support > 0, (support - hits) / support.clamp(min=1), 0.0)
    others = (support.sum(1, keepdim=True) - support).clamp(min=1)
    raised = (predicted - hits) / others
    return miss_weight * _relative(missed, norm) + false_alarm_weight * _relative(raised, norm)


def _relative(rates: Tensor, norm: ErrorNorm) -> Tensor:
    largest = rates.amax(1, keepdim=True) if norm == "client" else rates.amax()
    return torch.where(largest > 0, rates / largest.clamp(min=torch.finfo(rates.dtype).tiny), 0.0)


def priority_weights(
    counts: Judged, errors: Tensor, threshold: float, floor: float = 0.0, priority: Knowledge = "hits"
) -> Tensor:
    """[K] weights that sum to 1; 0 for clients that are not selected."""
    of_client, of_class = errors.sum(1), errors.sum(0)
    hardest = _first(of_class >= of_class.max() * (1 - SLACK))
    kept = of_client <= threshold * of_client.mean() * (1 + SLACK)
    if not kept.any():
        kept = torch.arange(len(of_client)) == _first(of_client <= of_client.min() * (1 + SLACK))
    least = max(LEAST_ERROR, floor * float(of_client.mean()))
    scores = counts.accuracy.sum(1) * known_of(counts, hardest, priority) / of_client.clamp(min=least)
    scores = torch.where(kept, scores, 0.0)
    if not scores.sum() > 0:  # all that are kept are always wrong
        scores = kept.double()
    return scores / scores.sum()


def _first(where: Tensor) -> int:
    """Of equal ones the first."""
    return int(torch.nonzero(where)[0, 0])


def known_of(counts: Judged, priority_class: int, priority: Knowledge) -> Tensor:
    """[K] how well each model knows the priority class. Hits go also by how many samples of it the workers happen to hold."""
    hits, recall = counts.hits[:, priority_class], 100 * counts.accuracy[:, priority_class]
    return {"hits": hits, "recall": recall, "nothing": torch.ones_like(hits)}[priority].clamp(min=1)
