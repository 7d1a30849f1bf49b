"""The hooks of a loss or a class weight, called on their own."""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor

from counterpoise.client.round import batch_loss
from counterpoise.core.method import PARTS, Method
from counterpoise.core.part import Batch, Census, ClientData, Outputs, Part, Stats
from counterpoise.core.tree import Tree, stack, tmap


def stats_of(counts: list[int], dtype: torch.dtype) -> Stats:
    number = torch.ones((), dtype=dtype)
    return Stats(torch.tensor(counts), number, number, number, {}, torch.tensor(counts))


def start(
    part: Part, counts: list[int], shared: Tree | None = None, dtype: torch.dtype = torch.float64
) -> Tree:
    """A client's slot, where its class counts are these."""
    return part.start({}, shared or {}, {}, stats_of(counts, dtype)) if part.start is not None else {}


def built(name: str, **arguments: Any) -> Part:
    return PARTS.build(name, arguments)


def per_sample(part: Part, counts: list[int], logits: Tensor, labels: list[int]) -> Tensor:
    """[B] loss of each sample."""
    assert part.loss is not None
    slot = start(part, counts, dtype=logits.dtype)
    return part.loss(Outputs(logits, logits[:, :0]), batch_of(logits, labels), slot)


def mean_loss(part: Part, counts: list[int], logits: Tensor, labels: list[int]) -> Tensor:
    """[] what training follows, by a method of this part alone."""
    slots = {part.name: start(part, counts, dtype=logits.dtype)}
    return batch_loss(Method((part,)), Outputs(logits, logits[:, :0]), batch_of(logits, labels), slots)


def batch_of(logits: Tensor, labels: list[int]) -> Batch:
    return Batch(logits, torch.tensor(labels), torch.ones(len(labels), dtype=logits.dtype))


def weights_of(part: Part, counts: list[int], shared: Tree | None = None) -> list[float]:
    """The factor on each class."""
    weights: Tensor = start(part, counts, shared)["weights"]
    return weights.tolist()


def told(part: Part, clients: list[list[int]], rounds: int = 10, round: int = 0) -> Tree:
    """What the server sends in a round after it has tallied clients with these class counts."""
    census = Census(torch.tensor([sum(c) for c in clients]), len(clients[0]), rounds)
    counted = [part.tally(_data(counts), len(counts)) for counts in clients] if part.tally is not None else []
    total = tmap(lambda leaf: leaf.sum(0), stack(counted)) if counted else {}
    slot = part.init({}, census, total) if part.init is not None else {}
    return part.send(slot, round) if part.send is not None else {}


def _data(counts: list[int]) -> ClientData:
    labels = torch.arange(len(counts)).repeat_interleave(torch.tensor(counts))
    return ClientData(torch.arange(len(labels)), labels)
