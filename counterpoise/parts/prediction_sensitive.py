"""Errors that a client often makes cost more: the prediction-sensitive loss of paper 004 (FedSat), equations 2 to 4."""

from __future__ import annotations

from typing import Annotated

import torch
from torch import Tensor

from counterpoise.core.method import part
from counterpoise.core.part import Batch, ClientData, Outputs, Part, Stats, Step, Visit
from counterpoise.core.tree import Params, Tree
from counterpoise.errors import ConfigError
from counterpoise.metrics.confusion import confusion
from counterpoise.parts.held_out import note_training_samples
from counterpoise.registry.schema import Positive

PAPER = "FedSat, equations 2 to 4"


@part(paper=PAPER, off={"highest": 1.0})
def prediction_sensitive(
    lowest: Positive = 1.0,
    highest: Positive = 2.0,
    online: Annotated[bool, "also count the batches of the round"] = True,
) -> Part:
    """``cs[y, argmax z] * loss``: the costs of wrong pairs run from `lowest` to `highest` by how often they occur; right answers cost 1.

    M counts true and predicted classes of what the client holds out, by the received model, and then of each batch after its
    costs are used. Off its diagonal ``cs = lowest + (M - min) / (max - min) (highest - lowest)``; where all
    entries are equal, `lowest`. Without held-out samples the client's training samples are counted.
    """
    if lowest > highest:
        raise ConfigError(
            f"prediction_sensitive: lowest must be at most highest = {highest:g}, not {lowest:g}"
        )

    def observe(data: ClientData, visit: Visit) -> Tree:
        rows, labels = data.held_out, data.held_out_labels
        if rows is None or labels is None or not len(rows):
            rows, labels = data.rows, data.labels
        logits = visit.look(rows).logits
        return {"confused": confusion(logits, labels, torch.ones_like(labels))}

    def start(params: Params, shared: Tree, memory: Tree, stats: Stats) -> Tree:
        return {"confused": stats.seen["confused"].to(stats.lr)}

    def weight(outputs: Outputs, batch: Batch, slot: Tree) -> Tensor:
        costs = pair_costs(slot["confused"], lowest, highest)
        return costs[batch.y, outputs.logits.detach().argmax(-1)]

    def adjust(grads: Params, slot: Tree, step: Step) -> tuple[Params, Tree]:
        batch = step.batch
        true, said = (
            torch.nn.functional.one_hot(which, slot["confused"].shape[-1]).to(slot["confused"])
            for which in (batch.y, step.outputs.logits.argmax(-1))
        )
        return grads, {"confused": slot["confused"] + (true * batch.mask.unsqueeze(-1)).t() @ said}

    return Part(
        observe=observe,
        start=start,
        weight=weight,
        adjust=adjust if online else None,
        note=note_training_samples,
    )


def pair_costs(confused: Tensor, lowest: float, highest: float) -> Tensor:
    """[C, C] cost of each pair of true and predicted class from their counts."""
    right = torch.eye(confused.shape[-1], dtype=torch.bool, device=confused.device)
    least = confused.masked_fill(right, torch.inf).amin()
    most = confused.masked_fill(right, -torch.inf).amax()
    share = (confused - least) / (most - least).clamp(min=1)  # counts: where they differ, by at least one
    return torch.where(right, 1.0, lowest + share * (highest - lowest))
