"""CReFF: a head that the server re-trains on features whose gradients match those of the clients. Shang et al. 2022, IJCAI, spec 3.3."""

from __future__ import annotations

import torch
from torch import Tensor
from torch.nn.functional import one_hot

from counterpoise.core.method import part
from counterpoise.core.part import Census, ClientData, Exchange, Part, Reveals, Stats, Visit
from counterpoise.core.tree import Params, Tree
from counterpoise.models.heads import with_plain_head
from counterpoise.parts.class_gradients import (
    TOLD,
    apart,
    class_gradients,
    draw_head,
    extended,
    gradients_of,
    joined,
    over_holders,
    take_of_each,
)
from counterpoise.registry.schema import Count, Positive, Whole

CREFF = "Shang et al. 2022, IJCAI, arXiv:2204.13399"
FLOOR = 1e-6  # keeps the cosine of a gradient that vanishes finite


@part(paper=CREFF, off={"features": 0})
def federated_features(
    features: Whole = 100,
    match_steps: Count = 100,
    match_lr: Positive = 0.1,
    epochs: Count = 300,
    lr: Positive = 0.01,
    batch_size: Count = 32,
    draws: Count = 10,
    samples: Count = 32,
) -> Part:
    """Scored and saved is the model with a head that is trained on `features` per class, whose gradients match the clients'.

    Clients send for each class the mean gradient of that head over `draws` of `samples` augmented samples, taken at the model as
    received. The server takes plain means over the clients that have a class, moves the features by
    ``sum over rows of 1 - cosine`` and trains a head that is drawn anew. The head that clients train goes on by itself.
    Before the first round the re-trained head is the model's own; a class that nobody had yet keeps the features it was drawn.
    """
    adapt = with_plain_head("federated_features", bias=True)
    if not features:
        return Part(adapt=adapt)

    def observe(data: ClientData, visit: Visit) -> Tree:
        return mean_gradients(data, visit, draws, samples)

    def update(delta: Params, slot: Tree, exchange: Exchange) -> tuple[Params, Tree]:
        stream, head = exchange.stream(), slot["head"].double().cpu()
        first = torch.randn(len(head), features, head.shape[1] - 1, generator=stream, dtype=torch.float64)
        # Drawn here, by the seed of the run, which nobody knows before the first round.
        known = slot["features"].double().cpu() if "features" in slot else first
        found = match(known, head, *over_holders(exchange.upload), match_steps, match_lr)
        after = retrain(draw_head(head, stream), found, epochs, lr, batch_size, stream)
        return delta, {"head": after.to(slot["head"]), "features": found.to(slot["head"])}

    return Part(
        adapt=adapt,
        init=init,
        send=send,
        observe=observe,
        finish=finish,
        update=update,
        present=present,
        reveals=Reveals(upload=TOLD),
    )


def init(params: Params, census: Census, surveys: Tree) -> Tree:
    return {"head": joined(params)}


def send(slot: Tree, round: int) -> Tree:
    return {"head": slot["head"]}


def finish(delta: Params, slot: Tree, memory: Tree, stats: Stats) -> tuple[Tree, Tree]:
    return stats.seen, memory


def present(params: Params, buffers: Params, slot: Tree) -> tuple[Params, Params]:
    return params | apart(slot["head"], params), buffers


def mean_gradients(data: ClientData, visit: Visit, draws: int, samples: int) -> Tree:
    """What a client sends: by class, the mean over draws of the mean gradient over samples."""
    head, found = visit.shared["head"], []
    for _ in range(draws):
        places = take_of_each(data.labels, samples, visit.stream)
        seen = visit.look(data.rows[places], visit.stream).features.to(head.dtype)
        found.append(class_gradients(seen, extended(seen) @ head.T, data.labels[places]))
    return {"gradients": torch.stack([one["gradients"] for one in found]).mean(0), "held": found[0]["held"]}


def mismatch(found: Tensor, wanted: Tensor) -> Tensor:
    """[C] of gradients [C, C, F + 1]: the sum over the weight's rows, and the bias, of 1 less their cosine."""

    def apart_by(a: Tensor, b: Tensor) -> Tensor:
        lengths: Tensor = torch.linalg.vector_norm(a, dim=-1) * torch.linalg.vector_norm(b, dim=-1)
        return 1 - (a * b).sum(-1) / (lengths + FLOOR)

    rows, bias = apart_by(found[..., :-1], wanted[..., :-1]), apart_by(found[..., -1], wanted[..., -1])
    return rows.sum(-1) + bias


def match(features: Tensor, head: Tensor, wanted: Tensor, known: Tensor, steps: int, rate: float) -> Tensor:
    """Features [C, m, F] after gradient steps on the mismatch; those of classes that are not known stay."""
    for _ in range(steps):
        with torch.enable_grad():
            leaf = features.detach().requires_grad_()
            value = (mismatch(gradients_of(leaf, head), wanted) * known).sum()
            slope = torch.autograd.grad(value, leaf)[0]
        features = features - rate * slope
    return features


def retrain(
    head: Tensor, features: Tensor, epochs: int, rate: float, batch_size: int, stream: torch.Generator
) -> Tensor:
    """The head [C, F + 1] after plain steps on the cross-entropy of batches of features [C, m, F]."""
    inputs = extended(features).flatten(0, 1)
    hit = one_hot(torch.arange(len(features)), len(features)).to(head).repeat_interleave(features.shape[1], 0)
    for _ in range(epochs):
        order = torch.randperm(len(inputs), generator=stream)
        for x, y in zip(*(torch.split(of[order], batch_size) for of in (inputs, hit)), strict=True):
            error = (x @ head.T).softmax(1) - y
            head = torch.addmm(head, error.T, x, alpha=-rate / len(x))
    return head
