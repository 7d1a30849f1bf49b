"""Groups of classes: the split of least variance, its ties, and the same answer for stacked clients."""

from __future__ import annotations

import math
from fractions import Fraction
from itertools import combinations

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from counterpoise.parts.grouping import Grouping, group_members


def _groups(
    counts: list[int],
    groups: int = 2,
    grouping: Grouping = "variance",
    owned: list[int] | None = None,
    minority: int | None = None,
) -> list[list[int]]:
    """The present classes of each group that has any."""
    found = group_members(torch.tensor(counts), torch.tensor(owned or counts), groups, grouping, minority)
    assert found.sum(0).tolist() == [1] * len(counts)
    members = [[c for c in torch.nonzero(row).flatten().tolist() if counts[c]] for row in found]
    return [group for group in members if group]


def _long_tail(classes: int, most: int, imbalance: float, rate: float) -> tuple[list[int], list[int]]:
    owned = [math.floor(most * imbalance ** (-c / (classes - 1))) for c in range(classes)]
    return [math.floor(n * (most / n) ** rate + 0.5) for n in owned], owned


CIFAR10, CIFAR100 = (10, 5000), (100, 500)


@pytest.mark.parametrize(
    ("data", "imbalance", "minority"),
    [
        (CIFAR10, 20, {0.0: 7, 0.2: 7, 0.4: 7, 0.5: 6, 0.6: 6, 0.7: 6, 0.8: 6}),
        (CIFAR10, 100, {0.0: 8, 0.4: 7, 0.7: 6, 0.8: 6}),
        (CIFAR100, 20, {0.0: 71, 0.1: 70, 0.2: 68, 0.4: 64, 0.8: 54}),
    ],
)
def test_sizes_of_the_minority_are_those_of_the_specification(
    data: tuple[int, int], imbalance: float, minority: dict[float, int]
) -> None:
    for rate, size in minority.items():
        counts, owned = _long_tail(*data, imbalance, rate)
        majority, rare = _groups(counts, owned=owned)
        assert len(rare) == size, rate
        assert majority == list(range(data[0] - size))


def _cost(groups: list[list[int]]) -> Fraction:
    means = [Fraction(sum(group), len(group)) for group in groups]
    return sum(
        (sum((n - mean) ** 2 for n in group) for group, mean in zip(groups, means, strict=True)),
        Fraction(0),
    )


def _by_search(counts: list[int], groups: int) -> list[int]:
    """Sizes of the best groups in exact arithmetic; combinations come with the smallest first groups first."""
    ordered = sorted((n for n in counts if n), reverse=True)
    groups = min(groups, len(ordered))
    if len(set(ordered)) == 1:
        cuts: tuple[int, ...] = tuple(h * len(ordered) // groups for h in range(1, groups))
    else:
        cuts = min(
            combinations(range(1, len(ordered)), groups - 1),
            key=lambda cuts: _cost(
                [ordered[i:j] for i, j in zip((0, *cuts), (*cuts, len(ordered)), strict=True)]
            ),
        )
    return [j - i for i, j in zip((0, *cuts), (*cuts, len(ordered)), strict=True)]


@settings(deadline=None, max_examples=300)
@given(st.lists(st.integers(0, 12), min_size=1, max_size=8).filter(any), st.integers(1, 5))
def test_the_split_is_the_best_of_all_and_the_first_of_equals(counts: list[int], groups: int) -> None:
    assert [len(group) for group in _groups(counts, groups)] == _by_search(counts, groups)


@settings(deadline=None, max_examples=60)
@given(st.lists(st.integers(0, 10**6), min_size=2, max_size=9).filter(any), st.integers(2, 4))
def test_large_counts_lose_nothing(counts: list[int], groups: int) -> None:
    assert [len(group) for group in _groups(counts, groups)] == _by_search(counts, groups)


def test_by_hand() -> None:
    # {10, 9} against {4, 1}: 0.5 + 4.5 = 5; {10} against the rest: 98 - 196/3 = 32.7; {10, 9, 4} against {1}: 20.7.
    assert _groups([4, 10, 1, 9]) == [[1, 3], [0, 2]]
    # {3} {2, 1} and {3, 2} {1} both cost 1/2: the smaller majority.
    assert _groups([3, 2, 1]) == [[0], [1, 2]]


def test_more_groups_than_classes_give_each_its_own() -> None:
    assert _groups([5, 0, 9, 0, 5], 4) == [[2], [0], [4]]
    assert _groups([5, 0, 5, 0, 5], 4) == [[0], [2], [4]]
    assert _groups([7, 2, 9], 50) == [[2], [0], [1]]
    assert _groups([0, 3, 0], 2) == [[1]]


def test_equal_proportions_are_split_in_half_by_what_was_owned() -> None:
    assert _groups([50] * 4, owned=[5, 50, 1, 20]) == [[1, 3], [0, 2]]
    # Of five the majority is the smaller half; equal counts go by number.
    assert _groups([50] * 5, owned=[9, 9, 9, 30, 9]) == [[0, 3], [1, 2, 4]]
    assert _groups([50, 0, 50, 50], 3, owned=[5, 0, 6, 7]) == [[3], [2], [0]]


def test_the_half_split_ignores_the_variance() -> None:
    assert _groups([100, 1, 1, 1, 2]) == [[0], [1, 2, 3, 4]]
    assert _groups([100, 1, 1, 1, 2], grouping="half") == [[0, 4], [1, 2, 3]]
    assert _groups([100, 1, 0, 1, 2], grouping="half") == [[0, 4], [1, 3]]
    assert _groups([100, 1, 1, 1, 2], groups=3, grouping="half") == [[0], [1, 4], [2, 3]]


def test_a_minority_may_be_set_by_hand() -> None:
    assert _groups([100, 1, 3, 0, 2], minority=1) == [[0, 2, 4], [1]]
    assert _groups([100, 1, 3, 0, 2], minority=3) == [[0], [1, 2, 4]]
    assert _groups([100, 1, 3, 0, 2], minority=9) == [[0, 1, 2, 4]]


@pytest.mark.parametrize("grouping", ["variance", "half", "classes"])
@pytest.mark.parametrize("groups", [1, 2, 3, 6])
def test_stacked_clients_get_the_groups_they_would_get_alone(grouping: Grouping, groups: int) -> None:
    counts = torch.tensor([[3, 8, 4, 4, 0, 7], [5, 5, 5, 5, 5, 5], [0, 0, 9, 0, 0, 0], [2, 1, 0, 6, 1, 1]])
    owned = counts.flip(1)

    def members(n: torch.Tensor, o: torch.Tensor) -> torch.Tensor:
        return group_members(n, o, groups, grouping)

    together = torch.vmap(members)(counts, owned)
    assert torch.equal(together, torch.stack([members(n, o) for n, o in zip(counts, owned, strict=True)]))
