"""Classes in groups of similar frequency: paper 000 (FedCGNM), section 3.2, with ties resolved as in spec 2.1.21 and 7."""

from __future__ import annotations

from typing import Literal, TypeAlias

import torch
from torch import Tensor

Grouping: TypeAlias = Literal["variance", "half", "classes"]

SLACK = 1e-14  # sums of squares this close, against the whole, are equal


def group_members(
    counts: Tensor, owned: Tensor, groups: int, grouping: Grouping = "variance", minority: int | None = None
) -> Tensor:
    """[H, C] True where a class belongs to a group; groups follow each other from frequent to rare classes.

    Classes are ordered by their count, equal ones by what the client owned before resampling, then by number. Tensor code
    without a branch on a value, since it also runs for stacked clients.
    """
    classes = len(counts)
    if grouping == "classes":
        return torch.eye(classes, dtype=torch.bool, device=counts.device)
    groups = 2 if minority is not None else min(groups, classes)
    present = (counts > 0).sum()
    even = even_starts(present, groups)
    if minority is not None:
        starts = (present - minority).clamp(min=0).unsqueeze(0)
    elif grouping == "half":
        starts = even
    else:
        flat = torch.where(counts > 0, counts, counts.max()).min() == counts.max()
        starts = torch.where(flat, even, least_variance_starts(counts, groups))
    group = (ranks(counts, owned).unsqueeze(-1) >= starts).sum(-1)  # [C]
    return group == torch.arange(groups, device=counts.device).unsqueeze(-1)


def ranks(counts: Tensor, owned: Tensor) -> Tensor:
    """[C] place of each class from the most frequent to the rarest."""

    def above(values: Tensor) -> tuple[Tensor, Tensor]:
        return values.unsqueeze(1) > values, values.unsqueeze(1) == values

    more, alike = above(counts)
    owned_more, owned_alike = above(owned)
    earlier, _ = above(-torch.arange(len(counts), device=counts.device))
    return (more | alike & (owned_more | owned_alike & earlier)).sum(0)


def even_starts(present: Tensor, groups: int) -> Tensor:
    """[H - 1] where groups begin that are as even as possible, smaller ones first; groups beyond the classes are empty."""
    group = torch.arange(1, groups, device=present.device)
    filled = present.clamp(min=1, max=groups)
    return torch.where(group < filled, group * present // filled, present)


def least_variance_starts(counts: Tensor, groups: int) -> Tensor:
    """[H - 1] where the groups begin that minimise ``sum_h |G_h| Var_h`` over all contiguous splits, by dynamic programming.

    Counts order splits as proportions do, and their sums of squares are exact. Of equal splits the one whose first group
    is smallest, then the second, and so on; so a group is empty only where there are fewer classes than groups.
    """
    cost = spread(counts.double().sort(descending=True).values)
    places = torch.arange(len(cost), device=counts.device)
    slack = SLACK * counts.double().square().sum()
    # Least cost of what follows each place, and where its first group then ends
    best, choices = cost[:, -1], []
    for _ in range(groups - 1):
        total = cost + best
        least = total.min(-1, keepdim=True).values
        choices.append(torch.where(total <= least + slack, places, len(cost)).min(-1).values)
        best = least.squeeze(-1)
    starts = [torch.zeros((), dtype=torch.int64, device=counts.device)]
    for choice in reversed(choices):
        starts.append(choice[starts[-1]])
    return torch.stack(starts[1:]) if choices else places[:0]


def spread(counts: Tensor) -> Tensor:
    """[C + 1, C + 1] sum of squared deviations of the present classes from place i up to j; infinite unless i < j."""
    zero = counts.new_zeros(1)
    first, second, size = (
        torch.cat([zero, values.cumsum(0)]) for values in (counts, counts.square(), (counts > 0).to(counts))
    )

    def between(sums: Tensor) -> Tensor:
        return sums - sums.unsqueeze(-1)  # [i, j]

    places = torch.arange(len(first), device=counts.device)
    deviation = between(second) - between(first).square() / between(size).clamp(min=1)
    return torch.where(places.unsqueeze(-1) < places, deviation, torch.inf)
