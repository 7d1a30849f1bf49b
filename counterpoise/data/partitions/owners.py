"""What partitions share: each sample has one owner, so every split is disjoint and complete by construction."""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Callable
from typing import Annotated, NamedTuple

import numpy as np

from counterpoise.data.partition import MOST_CLIENTS, Partition, Split
from counterpoise.data.skew import Counts, Floats
from counterpoise.data.types import Labels, Rows
from counterpoise.errors import ConfigError
from counterpoise.registry.schema import Interval
from counterpoise.system.capacity import check_fits

Concentration = Annotated[float, Interval(0, 1e9, open_low=True)]
CLIENT = 1_400  # bytes per client for its vectors of rows, however short
CELL = 32  # bytes per client and class while shares are drawn and assigned


class Owned(NamedTuple):
    """The client of each sample, and notes on samples that the protocol alone would not have assigned."""

    owner: Rows  # [n]
    repairs: tuple[str, ...] = ()


Rule = Callable[[Labels, int, np.random.Generator], Owned]  # labels, number of clients, stream -> owners


def partition_by(rule: Rule, minimum: int) -> Partition:
    """The partition of a rule: impossible splits are refused before, clients below the minimum are filled up after."""

    def split(labels: Labels, clients: int, rng: np.random.Generator) -> Split:
        check_sizes(len(labels.y), clients, minimum)
        check_number(clients, labels.classes)
        owner, repairs = rule(labels, clients, rng)
        owner, moved = fill_up(owner, clients, minimum, rng)
        return Split(rows_of(owner, clients), repairs + moved)

    return split


def check_sizes(samples: int, clients: int, minimum: int) -> None:
    if clients < 1:
        raise ConfigError(f"clients must be at least 1, not {clients}")
    if not samples:
        raise ConfigError(f"there are no samples to split among {clients} clients")
    if samples < minimum * clients:
        raise ConfigError(
            f"{clients} clients with at least {minimum} samples each need {minimum * clients} samples, "
            f"but there are {samples}; needs at most {samples // minimum} clients, or a smaller minimum"
        )


def check_number(clients: int, classes: int) -> None:
    """Before anything is allocated per client."""
    if clients > MOST_CLIENTS:
        raise ConfigError(f"clients must be at most {MOST_CLIENTS:,}, not {clients:,}")
    check_fits(clients * max(CLIENT, CELL * classes), f"clients = {clients:,}")


def rows_of(owner: Rows, clients: int) -> list[Rows]:
    """Sorted rows of each client."""
    sizes = np.bincount(owner, minlength=clients)
    return np.split(np.argsort(owner, kind="stable"), np.cumsum(sizes)[:-1])


def fill_up(owner: Rows, clients: int, minimum: int, rng: np.random.Generator) -> Owned:
    """Move random samples of the largest clients to those with fewer than the minimum."""
    sizes = np.bincount(owner, minlength=clients)
    lacking = np.maximum(minimum - sizes, 0)
    if not lacking.any():
        return Owned(owner)
    taken, rows = skim(sizes, int(lacking.sum())), rows_of(owner, clients)
    donors = np.flatnonzero(taken)
    moved = np.concatenate([rng.choice(rows[k], taken[k], replace=False) for k in donors])
    filled = owner.copy()
    filled[rng.permutation(moved)] = np.repeat(np.arange(clients), lacking)
    receivers = f"{np.count_nonzero(lacking)} clients below the minimum of {minimum}"
    return Owned(filled, (f"moved {len(moved)} samples to {receivers}, from the {len(donors)} largest",))


def skim(sizes: Counts, amount: int) -> Counts:
    """How many samples to take from each client so that the largest are cut to one level."""

    def enough_left(level: int) -> bool:
        return bool(np.maximum(sizes - level, 0).sum() <= amount)

    level = bisect_left(range(int(sizes.max())), True, key=enough_left)
    taken = np.maximum(sizes - level, 0)
    taken[np.flatnonzero(sizes >= level)[: amount - taken.sum()]] += 1
    return taken


def by_class(y: Rows, rng: np.random.Generator) -> Rows:
    """All rows sorted by class, in random order within a class."""
    order = rng.permutation(len(y))
    return order[np.argsort(y[order], kind="stable")]


def hand_out(labels: Labels, counts: Counts, rng: np.random.Generator) -> Rows:
    """Owners such that client k has ``counts[c, k]`` random samples of class c; counts use up each class."""
    classes, clients = counts.shape
    owner = np.empty(len(labels.y), np.int64)
    owner[by_class(labels.y, rng)] = np.repeat(np.tile(np.arange(clients), classes), counts.ravel())
    return owner


def even_runs(length: int, runs: int) -> Rows:
    """[length] run number of each position: consecutive runs whose sizes differ by at most one."""
    return np.arange(length) * runs // length


def shares_to_counts(total: Counts | np.int64 | int, weights: Floats) -> Counts:
    """Whole counts [..., N] that sum to the total, by rounding the cumulated weights; weight 0 gets none."""
    edges = np.cumsum(weights, axis=-1)
    whole = np.rint(edges / edges[..., -1:] * np.asarray(total)[..., None]).astype(np.int64)
    counts: Counts = np.diff(whole, axis=-1, prepend=0)
    return counts


def draw_shares(alpha: float, shape: tuple[int, ...], rng: np.random.Generator) -> Floats:
    """``p ~ Dir(alpha 1)`` along the last axis; a draw that underflows becomes its limit, a single 1."""
    shares = rng.dirichlet(np.full(shape[-1], alpha), shape[:-1])
    rows = shares.reshape(-1, shape[-1])
    lost = np.flatnonzero(~(rows.sum(axis=-1) > 0.5))  # nan or all zero
    rows[lost] = 0
    rows[lost, rng.integers(shape[-1], size=len(lost))] = 1
    return shares
