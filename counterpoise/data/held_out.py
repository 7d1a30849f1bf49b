"""Samples held out for validation: by the server, by each client, or of every class over all clients."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

import numpy as np
import torch
from torch import Tensor

from counterpoise.core.rng import generator, numpy_generator
from counterpoise.core.shares import floor_share
from counterpoise.data.dataset import Dataset, Samples
from counterpoise.data.federation import Federation
from counterpoise.data.split import stratified_split
from counterpoise.errors import listed


def hold_out_classes(federation: Federation, share: float, seed: int) -> Federation:
    """The same share of every class, drawn from all clients together, kept by its clients for validation.

    Of a class with two samples one is held out; a client that would have nothing left to train on keeps one sample.
    """
    rows = torch.cat([*federation.clients])
    split = stratified_split(
        federation.train.y[rows].numpy(), share, numpy_generator(seed, "held-out classes")
    )
    held = torch.zeros(len(rows), dtype=torch.bool)
    held[torch.from_numpy(split.test)] = True
    masks = torch.split(held, federation.samples().tolist())
    for mask in masks:  # views of `held`
        mask[:1] &= ~mask.all()
    return replace(
        federation,
        clients=tuple(own[~mask] for own, mask in zip(federation.clients, masks, strict=True)),
        held_out=tuple(own[mask] for own, mask in zip(federation.clients, masks, strict=True)),
    )


def take_share(data: Dataset, share: float, seed: int) -> tuple[Dataset, Samples | None]:
    """The data set without the server's validation samples, which are the same share of every class, rounded down."""
    if not share:
        return data, None
    rng = numpy_generator(seed, "validation")
    by_class = [rng.permutation(np.flatnonzero(data.train.y.numpy() == c)) for c in range(len(data.classes))]
    taken = np.sort(np.concatenate([rows[: floor_share(share, len(rows))] for rows in by_class]))
    rest = np.setdiff1d(np.arange(len(data.train.y)), taken)
    return data.keep(torch.from_numpy(rest)), data.train.take(torch.from_numpy(taken))


def validation_notes(classes: Sequence[str], server: Samples | None) -> list[str]:
    """A note on classes without validation samples, which scores on them (such as the reward of a search) cannot count."""
    known = set() if server is None else {*server.y.tolist()}
    lacking = [name for place, name in enumerate(classes) if place not in known]
    if server is None or not lacking:
        return []
    many = f"{len(lacking)} of {len(classes)} classes"
    return [
        f"{many} have no validation sample, since their share rounds down to none, and do not count in scores on them: {listed(lacking)}"
    ]


def hold_out(rows: Tensor, share: float, seed: int, client: int) -> tuple[Tensor, Tensor]:
    """A client's sorted rows for training and for validation; at least one stays for training."""
    if not share:  # no draw per client, of which there may be a hundred thousand
        return rows, rows[:0]
    held = min(floor_share(share, len(rows)), len(rows) - 1)
    order = torch.randperm(len(rows), generator=generator(seed, "held out", client))
    return rows[order[held:].sort().values], rows[order[:held].sort().values]
