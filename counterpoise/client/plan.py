"""The order in which a client visits its samples in one round, drawn ahead so that training draws nothing."""

from __future__ import annotations

import math
from typing import NamedTuple

import torch
from torch import Tensor

from counterpoise.core.local import Batching
from counterpoise.core.part import ClientData
from counterpoise.errors import ConfigError
from counterpoise.system.capacity import check_fits

PLACE = 25  # bytes per sample of a batch while a round is planned: position, mask, row and label


class Plan(NamedTuple):
    """S batches of B positions in a client's data."""

    positions: Tensor  # [S, B]
    mask: Tensor  # [S, B] True for a real sample, False for padding

    @property
    def steps(self) -> int:
        return len(self.positions)


def make_plan(
    data: ClientData, batch_size: int, epochs: int, batching: Batching, stream: torch.Generator
) -> Plan:
    """Every epoch in a fresh order; the last short batch is padded, wrapped or dropped."""
    steps = epoch_steps(len(data.labels), batch_size, batching)
    given = f"local.batch_size = {batch_size:,} and local.epochs = {epochs:,}"
    check_fits(PLACE * epochs * steps * batch_size, f"{given}: a client of {len(data.labels):,} samples")
    plans = [_plan_epoch(data, batch_size, batching, stream) for _ in range(epochs)]
    return Plan(torch.cat([p.positions for p in plans]), torch.cat([p.mask for p in plans]))


def epoch_steps(count: float, batch_size: int, batching: Batching) -> int:
    """Steps of a pass over so many samples; a mean of several clients' samples need not be whole."""
    if batching == "drop":
        # A client smaller than a batch would never train, so its one batch is wrapped instead.
        return max(int(count // batch_size), min(math.ceil(count), 1))
    return math.ceil(count / batch_size)


def _plan_epoch(data: ClientData, batch_size: int, batching: Batching, stream: torch.Generator) -> Plan:
    count = len(data.labels)
    steps = epoch_steps(count, batch_size, batching)
    if data.strata is not None and count:
        positions = _stratify(data, data.strata, steps, batch_size, stream)
        return Plan(positions, torch.ones_like(positions, dtype=torch.bool))
    wanted = steps * batch_size
    positions = _pass(data, stream) if batching == "pad" else _fill(data, wanted, stream)
    padding = torch.zeros(max(wanted - len(positions), 0), dtype=torch.int64)
    mask = torch.arange(wanted) < len(positions)
    filled = torch.cat([positions, padding])[:wanted]
    return Plan(filled.view(steps, batch_size), mask.view(steps, batch_size))


def _stratify(
    data: ClientData, strata: Tensor, steps: int, batch_size: int, stream: torch.Generator
) -> Tensor:
    """[S, B] batches of equal parts from each stratum; smaller strata are visited more than once per epoch."""
    rows = [torch.nonzero(strata == stratum).flatten() for stratum in sorted(set(strata.tolist()))]
    if len(rows) > batch_size:
        raise ConfigError(
            f"local.batch_size must be at least {len(rows)}, a sample of each group, not {batch_size}"
        )
    sizes = [batch_size // len(rows) + (index < batch_size % len(rows)) for index in range(len(rows))]
    columns = [
        own[_fill(_restrict(data, own), steps * size, stream)].view(steps, size)
        for own, size in zip(rows, sizes, strict=True)
    ]
    return torch.cat(columns, dim=1)


def _restrict(data: ClientData, positions: Tensor) -> ClientData:
    chances = None if data.chances is None else data.chances[positions]
    return ClientData(positions, positions, chances)  # only their number matters to a pass


def _fill(data: ClientData, wanted: int, stream: torch.Generator) -> Tensor:
    """Passes over the data one after another, cut to `wanted` positions."""
    count = len(data.labels)
    passes = [_pass(data, stream) for _ in range(math.ceil(wanted / count) if count else 0)]
    return torch.cat([torch.empty(0, dtype=torch.int64), *passes])[:wanted]


def _pass(data: ClientData, stream: torch.Generator) -> Tensor:
    if data.chances is None:
        return torch.randperm(len(data.labels), generator=stream)
    # By inverse transform sampling: torch.multinomial refuses more than 2^24 samples.
    cumulative = data.chances.double().cumsum(0)
    drawn = torch.rand(len(cumulative), generator=stream, dtype=torch.float64) * cumulative[-1:]
    return torch.searchsorted(cumulative, drawn, right=True).clamp(max=len(cumulative) - 1)
