"""CCVR: when training is over, the last layer is trained on virtual features that the server draws."""

from __future__ import annotations

from typing import NamedTuple

import torch
from torch import Tensor, nn

from counterpoise.core.method import part
from counterpoise.core.part import Census, ClientData, Exchange, Part, Reveals, Stats, Visit
from counterpoise.core.tree import Params, Tree, zeros
from counterpoise.models.heads import BIAS, WEIGHT, with_plain_head
from counterpoise.registry.schema import Count, Whole
from counterpoise.system.capacity import check_fits

PAPER = "Luo et al. 2021, arXiv:2106.05001, section 4"
# least variance in any direction, in mean variances: below it a root would only magnify rounding
FLOOR = 1e-6
OWN = 2  # copies of all covariances that a client holds at once
FIT = 5  # those that the server holds besides what clients sent


@part(paper=PAPER, off={"samples": 0})
def ccvr(samples: Whole = 2000, steps: Count = 500) -> Part:
    """In the last round only the head changes: it is fitted to ``samples / C`` features per class, drawn from ``N(mu_c, Sigma_c)``.

    mu_c and Sigma_c are of the features of all samples of class c on the clients of that round, which train nothing in it.
    List it last, so that no rule of the server moves the model after the fit.
    """

    def adapt(module: nn.Module) -> nn.Module:
        plain = with_plain_head("ccvr", bias=False)(module)
        _check_memory(plain.get_parameter(WEIGHT).shape, OWN if samples else 0)
        return plain

    def init(params: Params, census: Census, surveys: Tree) -> Tree:
        _check_memory(
            params[WEIGHT].shape, census.asked + FIT if samples else 0, f" of {census.asked} clients"
        )
        return {"last": torch.tensor(census.rounds - 1 if samples else census.rounds)}

    def update(delta: Params, slot: Tree, exchange: Exchange) -> tuple[Params, Tree]:
        if int(slot["last"]) != exchange.round:
            return delta, slot
        return zeros(delta) | _to_fitted_head(exchange, samples, steps), slot

    return Part(
        adapt=adapt,
        init=init,
        send=send,
        observe=observe,
        prepare=prepare,
        finish=finish,
        update=update,
        reveals=Reveals(
            upload="in the last round its samples of each class, and the mean and covariance of their features"
        ),
    )


def send(slot: Tree, round: int) -> Tree:
    # Only then, by name: what clients send has the form that the names of what they receive decide.
    return {"collect": torch.tensor(True)} if int(slot["last"]) == round else {}


def observe(data: ClientData, visit: Visit) -> Tree:
    if "collect" not in visit.shared:
        return {}
    seen = visit.look(data.rows)
    return class_sums(seen.features, data.labels, seen.logits.shape[1])._asdict()


def prepare(data: ClientData, visit: Visit) -> tuple[ClientData, Tree]:
    # Without a step the model that is fitted is the one that was looked at, running statistics too.
    none = ClientData(data.rows[:0], data.labels[:0], held_out=data.held_out)
    return (none if "collect" in visit.shared else data), visit.memory


def finish(delta: Params, slot: Tree, memory: Tree, stats: Stats) -> tuple[Tree, Tree]:
    return stats.seen, memory


class ClassSums(NamedTuple):
    """Sums over samples of each class, in float64: those of clients add up to those of all their samples."""

    counts: Tensor  # [C]
    total: Tensor  # [C, F] of features f
    square: Tensor  # [C, F, F] of f f^T


class Gaussians(NamedTuple):
    """A normal distribution of each class."""

    mean: Tensor  # [C, F]
    covariance: Tensor  # [C, F, F]

    def draw(self, count: int, stream: torch.Generator) -> Tensor:
        """Features [C, count, F]; by the symmetric root, which changes little where a covariance does."""
        noise = torch.randn(len(self.mean), count, self.mean.shape[1], generator=stream, dtype=torch.float64)
        return self.mean.unsqueeze(1) + noise @ _root(self.covariance)


def class_sums(features: Tensor, labels: Tensor, classes: int) -> ClassSums:
    """What a client sends of its features [n, F]."""
    own = [features[labels == c].double() for c in range(classes)]
    count = torch.bincount(labels, minlength=classes).double()
    return ClassSums(count, torch.stack([f.sum(0) for f in own]), torch.stack([f.T @ f for f in own]))


def gaussians(sums: ClassSums) -> Gaussians:
    """Means, and covariances by ``n_c - 1`` as in the paper; a class of one sample has the covariance within all classes."""
    count, total, square = sums
    mean = total / count.clamp(min=1).unsqueeze(1)
    scatter = square - total.unsqueeze(2) * mean.unsqueeze(1)
    free = (count - 1).clamp(min=0)  # [C] degrees of freedom
    pooled = scatter.sum(0) / free.sum().clamp(min=1)
    own = scatter / free.clamp(min=1).view(-1, 1, 1)
    return Gaussians(mean, torch.where((free > 0).view(-1, 1, 1), own, pooled))


def fit_head(head: Tensor, features: Tensor, labels: Tensor, steps: int) -> Tensor:
    """The head [C, F] after steps of Nesterov's gradient method on the mean cross-entropy; absent classes keep their rows.

    The rate is 1 / L with ``L = lambda_max(X^T X / n) / 2``, the largest curvature that the loss can have.
    """
    count, present = len(labels), torch.bincount(labels, minlength=len(head)) > 0
    targets = nn.functional.one_hot(labels, len(head)).to(head)
    moved = present.unsqueeze(1).to(head)
    rate = 2 / torch.linalg.eigvalsh(features.T @ features / count)[-1].clamp(min=1e-12)
    ahead = head
    for step in range(steps):
        slope = (torch.softmax(features @ ahead.T, 1) - targets).T @ features / count
        after = ahead - rate * moved * slope
        ahead, head = after + step / (step + 3) * (after - head), after
    return head


def _to_fitted_head(exchange: Exchange, samples: int, steps: int) -> Params:
    """The change that leads from the head that was sent to the fitted one."""
    sums = ClassSums(*(exchange.upload[name].sum(0).cpu() for name in ClassSums._fields))
    old = {name: exchange.params[name] for name in (WEIGHT, BIAS) if name in exchange.params}
    start = torch.cat([p.double().cpu().view(len(p), -1) for p in old.values()], 1)  # [C, F + 1] with a bias
    drawn = gaussians(sums).draw(max(1, samples // len(start)), exchange.stream())
    features, labels = drawn.flatten(0, 1), torch.arange(len(start)).repeat_interleave(drawn.shape[1])
    known = (sums.counts > 0)[labels]
    inputs = torch.cat([features, torch.ones(len(features), len(old) - 1, dtype=torch.float64)], 1)
    change = fit_head(start, inputs[known], labels[known], steps) - start
    width = features.shape[1]
    pieces = zip(old.items(), (change[:, :width], change[:, width:]), strict=False)
    return {name: piece.reshape(p.shape).to(p) for (name, p), piece in pieces}


def _root(covariance: Tensor) -> Tensor:
    """Symmetric roots [C, F, F]; eigenvalues below the floor are raised to it."""
    values, vectors = torch.linalg.eigh(covariance)
    floor = FLOOR * values.mean(1, keepdim=True).clamp(min=0)
    root: Tensor = (vectors * torch.maximum(values, floor).sqrt().unsqueeze(1)) @ vectors.mT
    return root


def _check_memory(head: torch.Size, copies: int, whose: str = "") -> None:
    """Covariances grow with the square of the features: without this a run would fail in its last round."""
    classes, features = head
    what = f"ccvr: a covariance of {features:,} features for each of {classes} classes{whose}"
    check_fits(copies * classes * features**2 * 8, what)
