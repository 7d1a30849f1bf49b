"""Label skew: over all clients, on each client, and between the two."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from counterpoise.data.types import Labels

Counts = NDArray[np.int64]
Floats = NDArray[np.float64]


def class_sizes(labels: Labels) -> Counts:
    """[C] samples of each class."""
    return np.bincount(labels.y, minlength=labels.classes)


@dataclass(frozen=True, eq=False)
class SkewReport:
    """Measures of one split; vectors have one entry per client, ``nan`` for a client without samples."""

    sizes: Counts  # [N] samples
    global_imbalance: float  # largest over smallest class of all clients together, over present classes
    local_imbalance: Floats  # [N] the same on each client
    divergence: Floats  # [N] Jensen-Shannon divergence from the global class distribution, in bits: 0 to 1
    total_variation: Floats  # [N] half the absolute difference from the global class distribution: 0 to 1
    cosine: Floats  # [N] cosine of local and global class counts: 0 to 1
    missing_classes: Counts  # [N] classes that other clients have and this one lacks
    effective_classes: Floats  # [N] exp of the entropy of the client's labels: 1 to C
    head_mismatch: (
        float  # share of clients none of whose most frequent classes is a most frequent one globally
    )
    weighted_cosine: (
        float  # mean cosine by samples: 1 where every client has the global mix (Xiao and Wang, 2021)
    )

    def summary(self) -> dict[str, float]:
        """Scalars for a table: each vector by its mean over clients with samples."""
        return {
            "global_imbalance": self.global_imbalance,
            "smallest_client": float(self.sizes.min()),
            "largest_client": float(self.sizes.max()),
            "head_mismatch": self.head_mismatch,
            "weighted_cosine": self.weighted_cosine,
            "local_imbalance": _mean(self.local_imbalance),
            "divergence": _mean(self.divergence),
            "total_variation": _mean(self.total_variation),
            "missing_classes": float(self.missing_classes.mean()),
            "effective_classes": _mean(self.effective_classes),
        }


def describe(counts: Counts) -> SkewReport:
    """Every measure of a count matrix [N, C]."""
    sizes, totals = counts.sum(axis=1), counts.sum(axis=0)
    local, overall = _shares(counts), _shares(totals)
    cosine = _cosine(local, overall)
    return SkewReport(
        sizes=sizes,
        global_imbalance=float(imbalance_of(totals)),
        local_imbalance=imbalance_of(counts),
        divergence=jensen_shannon(local, overall),
        total_variation=np.abs(local - overall).sum(axis=1) / 2,
        cosine=cosine,
        missing_classes=((counts == 0) & (totals > 0)).sum(axis=1),
        effective_classes=np.exp(entropy(local)),
        head_mismatch=_head_mismatch(counts, totals),
        weighted_cosine=float(np.nansum(cosine * sizes) / sizes.sum()) if sizes.any() else np.nan,
    )


def imbalance_of(counts: Counts) -> Floats:
    """Largest over smallest of the classes that are present, along the last axis."""
    largest = counts.max(axis=-1)
    smallest = np.where(counts > 0, counts, largest[..., None]).min(axis=-1)
    return _ratio(largest, smallest)


def entropy(shares: Floats) -> Floats:
    """``-sum p log p`` in nats along the last axis."""
    nats: Floats = -(shares * np.log(np.where(shares > 0, shares, 1))).sum(axis=-1)
    return nats


def jensen_shannon(p: Floats, q: Floats) -> Floats:
    """``H((p + q) / 2) - (H(p) + H(q)) / 2`` in bits: 0 where equal, 1 where no class is shared."""
    nats = entropy((p + q) / 2) - (entropy(p) + entropy(q)) / 2
    bits: Floats = np.clip(nats / np.log(2), 0, 1)
    return bits


def _head_mismatch(counts: Counts, totals: Counts) -> float:
    held = counts[counts.sum(axis=1) > 0]
    heads = held == held.max(axis=1, keepdims=True)
    return _mean(~(heads & (totals == totals.max())).any(axis=1))


def _cosine(local: Floats, overall: Floats) -> Floats:
    lengths = np.linalg.norm(local, axis=1) * np.linalg.norm(overall)
    cosine: Floats = np.minimum(local @ overall / lengths, 1)
    return cosine


def _shares(counts: Counts) -> Floats:
    return _ratio(counts, counts.sum(axis=-1, keepdims=True))


def _ratio(above: Counts, below: Counts) -> Floats:
    return above / np.where(below > 0, below, np.nan)


def _mean(values: Floats | NDArray[np.bool_]) -> float:
    known = values[~np.isnan(values)]
    return float(known.mean()) if len(known) else np.nan
