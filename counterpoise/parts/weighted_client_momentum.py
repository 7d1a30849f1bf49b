"""FedCM's momentum made of clients weighed by how scarce their classes are: FedWCM (paper 001), read as spec 2.3.

Who learns what: of class counts and shares the server gets only sums over all clients, by `tally`. A client's score s_k
reaches the server with each of its replies, since its weight needs it: one number between 0 and the largest gap, by which
the server knows how much of the client's data is of scarce classes, and not of which ones. Clients learn the gaps.
"""

from __future__ import annotations

import torch
from torch import Tensor

from counterpoise.core.method import part
from counterpoise.core.part import Census, Chart, ClientData, Exchange, Part, Reveals, Stats, Step
from counterpoise.core.tree import Params, Tree, zeros
from counterpoise.errors import ConfigError
from counterpoise.parts.counts import OF_EACH_CLASS, class_counts
from counterpoise.parts.scarcity import (
    FIRST_ALPHA,
    Exponent,
    Score,
    adaptive_alpha,
    class_gaps,
    client_score,
    discrepancy,
    fixed_point_shares,
    mean_score,
    tilt,
)
from counterpoise.parts.travel import TRAVELLED, MomentumForm, follow, server_turn, travel
from counterpoise.registry.schema import Fraction, NonNegative, Positive

PAPER = "FedWCM, Algorithm 1, equations 3 to 6"
SENT = ("direction", "alpha", "gaps")
REVEALS = Reveals(
    tally=f"{OF_EACH_CLASS}, and the classes' shares of each client, added up",
    upload=f"{TRAVELLED}, and its score: how much of its data is of scarce classes",
)
CHARTS = (
    Chart("alpha", "curve", "Share of a client's own gradient in its next steps", lambda slot: slot["alpha"]),
    Chart("q", "curve", "Mean score of the round's clients, relative to all clients", lambda slot: slot["q"]),
    Chart("weights", "bars", "Weights of the last round", lambda slot: slot["weights"], "clients"),
    Chart("scores", "bars", "Scores, 0 before a first reply", lambda slot: slot["scores"], "clients"),
)


@part(paper=PAPER)
def weighted_client_momentum(
    target: list[NonNegative] | None = None,
    score: Score = "positive",
    temperature_scale: Positive = 1.0,
    alpha: Fraction | None = None,
    exponent: Exponent = "discrepancy",
    momentum_form: MomentumForm = "resolved",
) -> Part:
    """``alpha_r g + (1 - alpha_r) m``, m of clients weighed by ``softmax(s_k / T)``, alpha_r by their mean score.

    ``s_k = sum_c max(target_c - p_c, 0) n_kc / n_k``, ``T = temperature_scale / (C D)``, ``D = sum_c |target_c - p_c|``,
    ``alpha = clip(0.1 + 0.9 (1 - e^-D) q, 0.1, 1)``, q the round's mean score over that of all clients. By default the
    target is uniform. Scores multiply what an earlier part weighs by. A given alpha is kept in every round.
    """
    if target is not None and not sum(target) > 0:
        raise ConfigError("method: target must have a number above 0")
    first = FIRST_ALPHA if alpha is None else alpha

    def init(params: Params, census: Census, tallied: Tree) -> Tree:
        wanted = _wanted(target, census.classes)
        gaps = class_gaps(tallied["counts"], wanted, score)
        nobody = torch.zeros(census.clients, dtype=torch.float64)
        return {
            "direction": zeros(params),
            "alpha": torch.tensor(first, dtype=torch.float64),
            "gaps": gaps,
            "discrepancy": discrepancy(tallied["counts"], wanted),
            "mean_score": mean_score(gaps, tallied["shares"], census.eligible),
            "q": torch.ones((), dtype=torch.float64),
            "weights": nobody,
            "scores": nobody,
        }

    def weigh(weights: Tensor, slot: Tree, exchange: Exchange) -> tuple[Tensor, Tree]:
        sharpness = len(slot["gaps"]) * float(slot["discrepancy"]) / temperature_scale
        return tilt(weights, _scores(slot, exchange), sharpness), slot

    def update(delta: Params, slot: Tree, exchange: Exchange) -> tuple[Params, Tree]:
        delta, direction = server_turn(delta, exchange, momentum_form)
        size = float(slot["discrepancy"]) / (1 if exponent == "discrepancy" else len(slot["gaps"]))
        scores = _scores(slot, exchange)
        q = _relative(scores, float(slot["mean_score"]))
        chosen = adaptive_alpha(size, q) if alpha is None else alpha
        return delta, slot | {
            "direction": direction,
            "alpha": torch.tensor(chosen, dtype=torch.float64),
            "q": torch.tensor(q, dtype=torch.float64),
            "weights": exchange.renew(torch.zeros_like(slot["weights"]), exchange.weights),
            "scores": exchange.renew(slot["scores"], scores),
        }

    return Part(
        tally=tally,
        init=init,
        send=send,
        start=start,
        adjust=adjust,
        finish=finish,
        weigh=weigh,
        update=update,
        charts=CHARTS,
        follows_server=first < 1,
        assumes_sgd=alpha != 1,  # the direction is on the scale of a gradient
        reveals=REVEALS,
    )


def tally(data: ClientData, classes: int) -> Tree:
    return class_counts(data, classes) | {"shares": fixed_point_shares(data, classes)}


def send(slot: Tree, round: int) -> Tree:
    return {name: slot[name] for name in SENT}


def start(params: Params, shared: Tree, memory: Tree, stats: Stats) -> Tree:
    own = client_score(shared["gaps"].to(stats.owned.device), stats.owned)
    return {"direction": shared["direction"], "alpha": shared["alpha"].to(stats.lr), "score": own}


def adjust(grads: Params, slot: Tree, step: Step) -> tuple[Params, Tree]:
    return follow(grads, slot["direction"], slot["alpha"]), slot


def finish(delta: Params, slot: Tree, memory: Tree, stats: Stats) -> tuple[Tree, Tree]:
    return travel(stats) | {"score": slot["score"]}, memory


def _wanted(target: list[float] | None, classes: int) -> Tensor:
    """[C] the target as shares."""
    if target is not None and len(target) != classes:
        raise ConfigError(
            f"method: target must be a list of one number per class ({classes}), not of {len(target)}"
        )
    given = torch.tensor([1.0] * classes if target is None else target, dtype=torch.float64)
    return given / given.sum()


def _scores(slot: Tree, exchange: Exchange) -> Tensor:
    """[K] as the clients sent them; more than the largest gap is a lie."""
    sent: Tensor = exchange.upload["score"]
    return sent.double().cpu().clamp(0.0, float(slot["gaps"].max()))


def _relative(scores: Tensor, everyone: float) -> float:
    """The mean score of the round's clients over that of all clients; 1 where no client has any."""
    return float(scores.mean()) / everyone if everyone > 0 else 1.0
