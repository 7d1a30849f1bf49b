"""A search for the rate at which each client, or each cluster of clients, resamples: one trial per round."""

from __future__ import annotations

import logging
import math
from collections.abc import Callable, Sequence
from typing import NamedTuple

import torch
from torch import Tensor

from counterpoise.core.messages import Replies, Task
from counterpoise.core.part import SILENT, Census, Chart, Judge, Part, Reveals
from counterpoise.core.tree import Params, Tree, tmap
from counterpoise.errors import ConfigError
from counterpoise.parts.counts import OF_EACH_CLASS, class_counts
from counterpoise.parts.rate_tree import Nodes, plant, sides

MANY, MOST = 2**8, 2**12  # models per round: more give a warning, an error
WIDEST = 30  # rates of a search; a node has 2^30 children then
SIBLINGS = 8  # children of a node that a chart shows
COLUMNS = ("parent", "depth", "visits", "reward", "score", "rate")


class Bandit(NamedTuple):
    """A rule on a tree of rates; rounds count from 0, the warm-up with them."""

    score: Callable[[Nodes, int], Tensor]  # nodes, round -> [n] how good a node may be
    probe: Callable[[Nodes, int], Tensor]  # nodes, round -> [P, G] rates that each client tries
    learn: Callable[[Nodes, Tensor, int], Nodes]  # nodes, rewards of the P^G models, round -> nodes


def rate_search(
    name: str, bandit: Bandit, low: float, high: float, warmup: int, clusters: int | None
) -> Part:
    """Every client trains at each probed rate; the best of the models that combinations of their replies average to is kept.

    The warm-up rounds do not change the tree, since a model that has hardly trained says little about rates.
    """
    if low > high:
        raise ConfigError(f"{name}: low must be at most high = {high:g}, not {low:g}")

    def init(params: Params, census: Census, surveys: Tree) -> Tree:
        cluster = (
            singletons(census.samples)
            if clusters is None
            else cluster_clients(name, surveys["counts"].cpu(), clusters)
        )
        nodes = plant(low, high, int(cluster.max()) + 1)
        check_size(name, len(bandit.probe(nodes, 0)), int(cluster.max()) + 1)
        return {
            "nodes": nodes._asdict(),
            "cluster": cluster,
            "rates": torch.full((census.clients,), (low + high) / 2, dtype=torch.float64),
            "reward": torch.zeros((), dtype=torch.float64),
            "rounds": torch.zeros((), dtype=torch.int64),
        }

    def propose(slot: Tree, round: int, cohort: Sequence[int]) -> Sequence[Task]:
        cluster, rates = slot["cluster"].tolist(), bandit.probe(*_read(slot)).tolist()
        return [Task(client, {"rate": probe[cluster[client]]}) for client in cohort for probe in rates]

    def choose(slot: Tree, replies: Replies, judge: Judge) -> tuple[Tensor, Tree]:
        nodes, t = _read(slot)
        cluster, rates = slot["cluster"].cpu(), bandit.probe(nodes, t)
        combinations, selections = _combine(rates, cluster, replies)
        rewards = judge(selections).cpu()
        best = int(rewards.argmax())
        learned = nodes if t < warmup else bandit.learn(nodes, rewards, t)
        return selections[best], {
            "nodes": learned._asdict(),
            "cluster": cluster,
            "rates": _rates_kept(rates, combinations[best], cluster),
            "reward": rewards[best],
            "rounds": torch.tensor(t + 1),
        }

    return Part(
        name,
        survey=None if clusters is None else class_counts,
        init=init,
        propose=propose,
        choose=choose,
        charts=(
            Chart("rates", "bars", "Rate of each client in the model kept", lambda s: s["rates"], "clients"),
            Chart("reward", "curve", "Validation score of the model kept", lambda slot: slot["reward"]),
            Chart("tree", "tree", "The tree of rates", lambda s: outline(bandit, s), columns=COLUMNS),
        ),
        reveals=SILENT if clusters is None else Reveals(survey=OF_EACH_CLASS),
    )


def _read(slot: Tree) -> tuple[Nodes, int]:
    # The slots of a resumed run may be on a GPU.
    return Nodes(**tmap(Tensor.cpu, slot["nodes"])), int(slot["rounds"])


def _combine(rates: Tensor, cluster: Tensor, replies: Replies) -> tuple[Tensor, Tensor]:
    """[M, G] which of the probed rates each cluster has in each model, [M, K] the replies that it is the average of."""
    count, dimensions = rates.shape
    combinations = sides(torch.arange(count**dimensions), dimensions)
    clients = replies.client[::count]
    return combinations, count * torch.arange(len(clients)) + combinations[:, cluster[clients]]


def _rates_kept(rates: Tensor, combination: Tensor, cluster: Tensor) -> Tensor:
    """[N] the rate of each client in the model of a combination [G]; 0 without samples."""
    chosen = rates.gather(0, combination.unsqueeze(0)).squeeze(0)
    return torch.where(cluster < 0, 0.0, chosen[cluster])


def singletons(samples: Tensor) -> Tensor:
    """[N] a cluster of its own for each client that has samples, -1 for the others."""
    return torch.where(samples > 0, (samples > 0).cumsum(0) - 1, -1)


def cluster_clients(name: str, counts: Tensor, clusters: int) -> Tensor:
    """[N] cluster of each client: Ward's rule on class proportions, numbered by their first client; -1 without samples."""
    from scipy.cluster.hierarchy import cut_tree, linkage

    present = torch.nonzero(counts.sum(1)).flatten()
    if clusters > len(present):
        raise ConfigError(
            f"{name}: clusters must be 1 to {len(present)}, the number of clients with samples, not {clusters}"
        )
    shares = counts[present].double() / counts[present].sum(1, keepdim=True)
    found = cut_tree(linkage(shares.numpy(), "ward"), clusters).ravel() if len(present) > 1 else [0]
    order: dict[int, int] = {}
    numbers = [order.setdefault(int(label), len(order)) for label in found]
    return torch.full((len(counts),), -1).index_put((present,), torch.tensor(numbers))


def check_size(name: str, count: int, dimensions: int) -> None:
    """Refuse a round that would never end; warn of one that takes long."""
    models = count**dimensions
    words = f"{name}: {count} trainings of each of {dimensions} clients or clusters make {models} models to score per round"
    if models > MOST or dimensions > WIDEST:
        most = WIDEST if models <= MOST else int(math.log(MOST, count))
        raise ConfigError(f"{words}; at most {most} clients, or clusters = 1 to {most}")
    if models > MANY:
        logging.getLogger("counterpoise").warning("%s; fewer `clusters` make fewer", words)


def outline(bandit: Bandit, slot: Tree) -> Tensor:
    """[n, columns] the nodes worth showing: those visited more than once, and the best children of each."""
    nodes, t = _read(slot)
    shown = (nodes.visits > 1) | (_rank_among_siblings(nodes) < SIBLINGS)
    row = shown.cumsum(0) - 1
    parent = torch.where(nodes.parent < 0, -1, row[nodes.parent])
    rate = ((nodes.lower + nodes.upper) / 2).mean(-1)
    columns = parent, nodes.depth, nodes.visits, nodes.value, bandit.score(nodes, t), rate
    return torch.stack([column.double() for column in columns], 1)[shown]


def _rank_among_siblings(nodes: Nodes) -> Tensor:
    """[n] 0 for the best child of each node, by value."""
    order = nodes.value.argsort(descending=True, stable=True)
    order = order[nodes.parent[order].argsort(stable=True)]
    family = nodes.parent[order]
    rank = torch.arange(len(order)) - torch.searchsorted(family, family)
    return torch.empty_like(order).index_put((order,), rank)
