"""All samples in one place: a federation of one client, with the steps that all of its clients would take."""

from __future__ import annotations

import math
from dataclasses import replace

import torch

from counterpoise.core.local import Local
from counterpoise.core.method import Method
from counterpoise.core.part import ClientData, Part, Visit
from counterpoise.core.tree import Tree
from counterpoise.data.federation import Federation
from counterpoise.server.cohort import Cohort


def pool(
    method: Method, federation: Federation, cohort: Cohort, local: Local, seed: int
) -> tuple[Method, Federation]:
    """The run as it is, or, where a part pools, with all samples on one client.

    That one is asked in every round, whatever the cohort: the other clients are left without training samples, but with
    what they hold out, by which they are still scored by name.
    """
    part = method.pools
    if part is None:
        return method, federation
    budget = _budget(part, federation, cohort, local, seed)
    # Last: the steps are counted after other parts have prepared the samples.
    parts = (*(other for other in method.parts if other is not part), budget)
    return replace(method, parts=parts), pooled(federation)


def pooled(federation: Federation) -> Federation:
    """The federation with the training samples of all clients on the first that has any."""
    owners = torch.nonzero(federation.samples()).flatten().tolist()
    if len(owners) < 2:
        return federation
    rows = torch.cat(federation.clients).sort().values
    clients = [own[:0] for own in federation.clients]
    clients[owners[0]] = rows
    return replace(federation, clients=tuple(clients))


def _budget(part: Part, federation: Federation, cohort: Cohort, local: Local, seed: int) -> Part:
    """The part with a `prepare` that gives the one client as many samples as make the steps of the round's cohort."""
    samples = federation.samples()

    def send(slot: Tree, round: int) -> Tree:
        drawn = torch.zeros_like(samples)
        chosen = cohort.draw(seed, round, samples)
        drawn[chosen] = samples[chosen]
        return {"samples": drawn}

    def prepare(data: ClientData, visit: Visit) -> tuple[ClientData, Tree]:
        sizes, clients = torch.unique(visit.shared["samples"], return_counts=True)
        steps = sum(
            visit.steps(n) * many for n, many in zip(sizes.tolist(), clients.tolist(), strict=True) if n
        )
        count = len(data.labels)
        if not count or visit.steps(count) == steps:
            return data, visit.memory
        wanted = steps // local.epochs * local.batch_size
        passes = [torch.randperm(count, generator=visit.stream) for _ in range(math.ceil(wanted / count))]
        return _take(data, torch.cat(passes)[:wanted]), visit.memory

    return replace(part, send=send, prepare=prepare)


def _take(data: ClientData, positions: torch.Tensor) -> ClientData:
    """These samples, in this order, some of them perhaps twice."""
    kept = {
        name: value[positions]
        for name in ("rows", "labels", "chances", "strata")
        if (value := getattr(data, name)) is not None
    }
    return data._replace(**kept)
