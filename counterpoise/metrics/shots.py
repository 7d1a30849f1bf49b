"""Head, medium and tail classes (FedReLa, appendix B, after Xiao et al., 2024)."""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Iterable, Sequence
from itertools import accumulate
from typing import NamedTuple, SupportsInt

from counterpoise.core.shares import ceil_share
from counterpoise.errors import ConfigError, legal_words, short
from counterpoise.metrics.scores import Score, mean_score


class Shots(NamedTuple):
    """Class ids by how many training samples they have; every class is in exactly one group, or none is in any."""

    head: tuple[int, ...]
    medium: tuple[int, ...]
    tail: tuple[int, ...]


NO_SHOTS = Shots((), (), ())
FEWEST_CLASSES = 3  # two classes have their recalls
LEAST_RATIO = 2  # largest over smallest class; below it groups would be ranges of class ids
# as printed; by the paper's own rule they fit an imbalance of 100 (CIFAR-10) and of about 10 (CIFAR-100)
PAPER_SHOTS = {
    "cifar10": Shots(tuple(range(3)), tuple(range(3, 6)), tuple(range(6, 10))),
    "cifar100": Shots(tuple(range(48)), tuple(range(48, 84)), tuple(range(84, 100))),
}


def shots_by_rule(train_counts: Iterable[SupportsInt], head: float = 0.75, medium: float = 0.95) -> Shots:
    """From the largest class down: head through the class where the cumulative share reaches ``head``, medium
    through the one where it reaches ``medium``, tail the rest.

    Equal counts go by class id, so on balanced data the groups are ranges of ids that say nothing about scarcity.
    One class may reach both shares at once; medium is then empty.
    """
    counts = [int(count) for count in train_counts]
    _check_rule(counts, head, medium)
    order = sorted(range(len(counts)), key=lambda c: (-counts[c], c))
    reached = list(accumulate(counts[c] for c in order))
    head_end, medium_end = (
        bisect_left(reached, ceil_share(share, reached[-1])) + 1 for share in (head, medium)
    )
    groups = order[:head_end], order[head_end:medium_end], order[medium_end:]
    return Shots(*(tuple(sorted(group)) for group in groups))


def shots_of_counts(train_counts: Iterable[SupportsInt]) -> Shots:
    """Groups by the rule where they mean something: of three classes or more, the largest twice as large as the smallest."""
    counts = [int(count) for count in train_counts]
    if len(counts) < FEWEST_CLASSES or max(counts) < LEAST_RATIO * min(counts):
        return NO_SHOTS
    return shots_by_rule(counts)


def shots_from_sets(head: Iterable[int], medium: Iterable[int], tail: Iterable[int], classes: int) -> Shots:
    """Groups as the user states them; together they must name every class once."""
    shots = Shots(*(tuple(sorted(group)) for group in (head, medium, tail)))
    named = sorted(shots.head + shots.medium + shots.tail)
    if named != list(range(classes)):
        raise ConfigError(f"shots must name each class from 0 to {classes - 1} once, not {short(named)}")
    return shots


def shots_paper(dataset: str) -> Shots:
    """The sets printed in FedReLa, whatever the imbalance."""
    if dataset not in PAPER_SHOTS:
        raise ConfigError(
            f"no printed shots for data set {short(dataset)}; {legal_words(dataset, PAPER_SHOTS)}"
        )
    return PAPER_SHOTS[dataset]


def group_recall(recalls: Sequence[Score], ids: Iterable[int]) -> Score:
    """Mean recall over the classes of a group that have support."""
    return mean_score(recalls[c] for c in ids)


def _check_rule(counts: list[int], head: float, medium: float) -> None:
    if min(counts, default=0) < 0 or sum(counts) <= 0:
        raise ConfigError(f"training counts must be at least 0, and one above 0, not {short(counts)}")
    if not 0 < head <= medium <= 1:
        raise ConfigError(f"shots must have 0 < head <= medium <= 1, not head = {head}, medium = {medium}")
