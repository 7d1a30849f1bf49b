"""Head, medium and tail: the sets worked out in the specification, and no class is ever lost."""

from __future__ import annotations

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from counterpoise.errors import ConfigError
from counterpoise.metrics import (
    Shots,
    group_recall,
    shots_by_rule,
    shots_from_sets,
    shots_of_counts,
    shots_paper,
)
from counterpoise.report.table import table


def long_tail(classes: int, largest: int, ratio: float) -> list[int]:
    return [int(largest * ratio ** (-c / (classes - 1))) for c in range(classes)]


@pytest.mark.parametrize(
    ("classes", "largest", "ratio", "last_head", "last_medium"),
    [(10, 5000, 100, 2, 5), (10, 5000, 50, 3, 6), (100, 500, 100, 29, 60), (100, 500, 50, 33, 67)],
)
def test_sets_of_the_rule(classes: int, largest: int, ratio: float, last_head: int, last_medium: int) -> None:
    ids = tuple(range(classes))
    expected = Shots(ids[: last_head + 1], ids[last_head + 1 : last_medium + 1], ids[last_medium + 1 :])
    assert shots_by_rule(long_tail(classes, largest, ratio)) == expected


def test_printed_sets() -> None:
    assert shots_paper("cifar10") == shots_by_rule(long_tail(10, 5000, 100))
    printed = shots_paper("cifar100")
    assert (printed.head[-1], printed.medium[0], printed.medium[-1], printed.tail[0]) == (47, 48, 83, 84)
    assert sorted(sum(printed, ())) == list(range(100))
    with pytest.raises(ConfigError, match="did you mean 'cifar10'"):
        shots_paper("cifar-10")


@settings(deadline=None)
@given(
    st.lists(st.integers(0, 1000), min_size=1, max_size=30).filter(any),
    st.tuples(st.integers(1, 100), st.integers(1, 100)).map(sorted),
)
def test_every_class_is_in_one_group_and_larger_groups_hold_larger_classes(
    counts: list[int], percent: list[int]
) -> None:
    shots = shots_by_rule(counts, percent[0] / 100, percent[1] / 100)
    assert shots == shots_from_sets(*shots, classes=len(counts))
    ranked = [(-counts[c], c) for group in shots for c in sorted(group, key=lambda c: (-counts[c], c))]
    assert ranked == sorted(ranked)
    for classes, share in ((shots.head, percent[0]), (shots.head + shots.medium, percent[1])):
        covered = [counts[c] for c in classes]
        assert 100 * sum(covered) >= share * sum(counts)  # the share is reached
        assert 100 * (sum(covered) - min(covered)) < share * sum(counts)  # and not without the last class


def test_an_order_other_than_by_id_is_followed() -> None:
    assert shots_by_rule([5, 80, 0, 15]) == Shots(head=(1,), medium=(3,), tail=(0, 2))


def test_equal_counts_are_cut_by_class_id() -> None:
    assert shots_by_rule([7] * 10) == Shots(tuple(range(8)), (8, 9), ())
    assert shots_by_rule([500] * 100) == Shots(tuple(range(75)), tuple(range(75, 95)), tuple(range(95, 100)))


def test_one_class_may_reach_both_shares() -> None:
    assert shots_by_rule([1000, 10]) == Shots((0,), (), (1,))
    assert shots_by_rule([3]) == Shots((0,), (), ())


def test_a_share_is_the_decimal_it_is_written_as() -> None:
    assert 0.55 * 100 > 55
    assert shots_by_rule([55, 25, 20], head=0.55, medium=0.8) == Shots((0,), (1,), (2,))


def test_arrays_and_tensors_serve_as_counts() -> None:
    counts = [3, 90, 7]
    assert (
        shots_by_rule(np.array(counts, dtype=np.uint8))
        == shots_by_rule(torch.tensor(counts))
        == shots_by_rule(counts)
    )


def test_group_recall_is_over_classes_with_support() -> None:
    recalls = [0.9, None, 0.5, None]
    assert group_recall(recalls, (0, 1, 2)) == pytest.approx(0.7)
    assert group_recall(recalls, (1, 3)) is None
    assert group_recall(recalls, ()) is None


@pytest.mark.parametrize("sets", [((0,), (1,), ()), ((0, 1), (1,), (2,)), ((0,), (1,), (2, 3))])
def test_sets_that_lose_or_repeat_a_class_are_refused(
    sets: tuple[tuple[int, ...], tuple[int, ...], tuple[int, ...]],
) -> None:
    with pytest.raises(ConfigError, match="from 0 to 2 once"):
        shots_from_sets(*sets, classes=3)


@pytest.mark.parametrize("counts", [[], [0, 0], [4, -1]])
def test_counts_that_are_not_counts_are_refused(counts: list[int]) -> None:
    with pytest.raises(ConfigError, match="training counts"):
        shots_by_rule(counts)


@pytest.mark.parametrize("shares", [(0.0, 0.9), (0.9, 0.8), (0.9, 1.1)])
def test_shares_out_of_order_are_refused(shares: tuple[float, float]) -> None:
    with pytest.raises(ConfigError, match="0 < head <= medium <= 1"):
        shots_by_rule([1, 2], *shares)


@pytest.mark.parametrize(
    ("counts", "grouped"),
    [
        ([50, 50], False),  # two classes have their recalls
        ([900, 100], False),
        ([100, 100, 51], False),
        ([100, 80, 50], True),
        ([180, 90, 9, 0], True),
    ],
)
def test_classes_are_grouped_where_that_means_something(counts: list[int], grouped: bool) -> None:
    assert shots_of_counts(counts) == (shots_by_rule(counts) if grouped else Shots((), (), ()))


def test_columns_of_groups_are_shown_where_a_run_has_one() -> None:
    run = {"method": "fedavg", "seconds": 1.0, "accuracy": 0.5, "head": None, "medium": None, "tail": None}
    assert "tail" not in table([run])
    assert "n/a" in table([run, run | {"tail": 0.5}])
    assert "tail % " in table([run, run | {"tail": 0.5}])
