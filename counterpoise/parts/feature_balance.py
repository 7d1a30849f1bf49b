"""FedBal's local balancer (paper 002, equations 4, 12 and 13, read as spec 2.4) and the Feature-Balanced Loss that it applies."""

from __future__ import annotations

from typing import Literal, TypeAlias

import torch
import torch.nn.functional as F  # noqa: N812
from torch import Tensor

from counterpoise.core.method import part
from counterpoise.core.part import Batch, Census, Outputs, Part, Stats
from counterpoise.core.tree import Params, Tree
from counterpoise.models.heads import with_features
from counterpoise.registry.schema import NonNegative

FEDBAL = "FedBal"
FBL = "Li, Cheung & Jiang 2022, Feature-Balanced Loss (ICME)"
SHORTEST = 1e-12  # added to the norm of the features
Schedule: TypeAlias = Literal["local", "global", "released"]
Normalise: TypeAlias = Literal["max", "sum"]


@part(paper=FEDBAL, off={"strength": 0.0})
def local_balancer(
    strength: NonNegative = 1.0, schedule: Schedule = "local", normalise: Normalise = "max"
) -> Part:
    """``CE(z_j - strength a^2 lam_j / |f|)``, ``lam_j = log(n_max / n_j)`` over its largest, f the input of the last layer.

    n are the client's own counts, at least 1; equal counts give lam = 0. a grows from local epoch k = 1 to K, ``k / K``
    (local), over the T rounds, ``t / T`` (global), or as in the released code, ``(k - 1) / T``, which divides lam by its
    sum and is cross-entropy in practice. Strength 1 is the printed formula, 60 what the Feature-Balanced Loss uses.
    """
    return _balanced(strength, schedule, normalise)


@part(paper=FBL, off={"strength": 0.0})
def feature_balanced(strength: NonNegative = 60.0) -> Part:
    """``CE(z_j - strength (t / T)^2 lam_j / |f|)``, ``lam_j = log(n_max / n_j)`` over its largest, t of T rounds.

    What `local_balancer` is made from: trained on one machine it grows over the epochs of the run, here over its rounds.
    """
    return _balanced(strength, "global", "max")


def _balanced(strength: float, schedule: Schedule, normalise: Normalise) -> Part:
    def init(params: Params, census: Census, surveys: Tree) -> Tree:
        return {"rounds": torch.tensor(census.rounds)}

    def send(slot: Tree, round: int) -> Tree:
        return slot | {"round": torch.tensor(round + 1)}

    def start(params: Params, shared: Tree, memory: Tree, stats: Stats) -> Tree:
        shift = strength * rarity(stats.counts.double(), normalise)
        whole = {name: value.to(stats.lr) for name, value in shared.items()}
        return {"shift": shift.to(stats.lr), "epochs": stats.epochs, "steps": stats.steps} | whole

    def grown(batch: Batch, slot: Tree) -> Tensor:
        done = epochs_done(batch, slot["steps"], slot["epochs"])
        share: Tensor = {
            "local": lambda: (done + 1) / slot["epochs"],
            "global": lambda: slot["round"] / slot["rounds"],
            "released": lambda: done / slot["rounds"],
        }[schedule]()
        return share

    def loss(outputs: Outputs, batch: Batch, slot: Tree) -> Tensor:
        length = torch.linalg.vector_norm(outputs.features, dim=-1, keepdim=True) + SHORTEST  # [B, 1]
        shift = grown(batch, slot).square() * slot["shift"] / length
        return F.cross_entropy(outputs.logits - shift, batch.y, reduction="none")

    told = schedule != "local"
    return Part(
        adapt=with_features("the feature-balanced loss"),
        init=init if told else None,
        send=send if told else None,
        start=start,
        loss=loss,
    )


def rarity(counts: Tensor, normalise: Normalise = "max") -> Tensor:
    """lam [C]: 0 for the largest class; an absent class counts as one sample; all 0 where counts are equal."""
    floored = counts.clamp(min=1)
    gap = (floored.max() / floored).log()
    whole = gap.max() if normalise == "max" else gap.sum()
    return torch.where(whole > 0, gap / whole.clamp(min=1e-300), 0.0)


def epochs_done(batch: Batch, steps: Tensor, epochs: Tensor) -> Tensor:
    """[] whole epochs that are over."""
    return torch.floor(batch.steps_done(steps) * epochs / steps.clamp(min=1))
