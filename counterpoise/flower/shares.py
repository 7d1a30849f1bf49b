"""What each client counts for: by the number of samples that it says it has, which nobody else can check."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

TOO_MUCH = 0.5  # of all samples, from which on one client decides alone
SHOWN = 20


def capped(samples: Mapping[str, int], most: float | None) -> dict[str, int]:
    """Numbers of samples of which none is more than a share `most` of their sum.

    n_k <- min(n_k, b) with the largest b for which b <= most * sum_j min(n_j, b); where there is none, all alike.
    """
    counts = sorted(samples.values())
    if most is None or counts[-1] <= most * sum(counts):
        return dict(samples)
    for kept in range(len(counts) - 1, -1, -1):
        # The largest ones, all but `kept`, count for b each: b = most (rest + (K - kept) b).
        over, rest = len(counts) - kept, sum(counts[:kept])
        if most * over < 1:
            bound = most * rest / (1 - most * over)
            if kept == 0 or bound >= counts[kept - 1]:
                return {name: max(1, min(count, int(bound))) for name, count in samples.items()}
    return dict.fromkeys(samples, 1)


def share_lines(samples: Mapping[str, int], counted: Mapping[str, int]) -> list[str]:
    """Every client's share, largest first, and a warning where one has more than half."""
    total = sum(counted.values())
    order: Sequence[str] = sorted(samples, key=lambda name: (-samples[name], name))
    lines = []
    for name in order[:SHOWN]:
        less = "" if counted[name] == samples[name] else f", counts for {counted[name]:,}"
        lines.append(
            f"client {name}: {samples[name]:,} samples{less}, {counted[name] / total:.1%} of the average"
        )
    if len(order) > SHOWN:
        lines.append(f"and {len(order) - SHOWN} more clients")
    largest = order[0]
    if len(order) > 1 and counted[largest] > TOO_MUCH * total:
        lines.append(
            f"warning: client {largest} says that it has {samples[largest]:,} samples, more than half of all: it decides "
            "alone what is learned; flower.max_share bounds that"
        )
    return lines
