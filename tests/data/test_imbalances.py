"""Imbalances keep the counts that the papers print."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from counterpoise.data.imbalances import IMBALANCES, minority_ids
from counterpoise.data.skew import class_sizes
from counterpoise.data.types import Labels
from counterpoise.errors import ConfigError


def labels_of(*sizes: int) -> Labels:
    y = np.random.default_rng(5).permutation(np.repeat(np.arange(len(sizes)), sizes))
    return Labels(y, len(sizes))


def kept_sizes(name: str, labels: Labels, seed: int = 0, **arguments: object) -> list[int]:
    rows = IMBALANCES.build(name, arguments)(labels, np.random.default_rng(seed))
    return [int(size) for size in class_sizes(labels._replace(y=labels.y[rows]))]


@pytest.mark.parametrize(
    ("classes", "size", "factor", "total"),
    [
        (10, 5000, 20, 17023),
        (10, 5000, 50, 13996),
        (10, 5000, 100, 12406),
        (100, 500, 20, 15907),
        (100, 500, 50, 12608),
        (100, 500, 100, 10847),
    ],
)
def test_long_tail_has_the_totals_of_cifar(classes: int, size: int, factor: float, total: int) -> None:
    sizes = kept_sizes("longtail", labels_of(*[size] * classes), factor=factor)
    assert sum(sizes) == total
    assert sizes[0] == size
    assert sizes[-1] == size // factor


@pytest.mark.parametrize("printed", [0.5, 0.1, 0.05, 0.01])
def test_a_factor_below_one_is_read_the_other_way_round(printed: float) -> None:
    labels = labels_of(*[600] * 10)
    assert kept_sizes("longtail", labels, factor=printed) == kept_sizes(
        "longtail", labels, factor=1 / printed
    )


def test_long_tail_by_hand() -> None:
    # 1000 / 1000^(c/3) = 1000, 100, 10, 1
    assert kept_sizes("longtail", labels_of(*[1000] * 4), factor=1000) == [1000, 100, 10, 1]


def test_a_small_class_keeps_what_it_has_and_no_class_vanishes() -> None:
    # wanted: 80, 8, 0.8
    assert kept_sizes("longtail", labels_of(80, 5, 60), factor=100) == [80, 5, 1]


def test_factor_one_keeps_everything() -> None:
    assert kept_sizes("longtail", labels_of(9, 4, 7), factor=1) == [9, 4, 7]


def test_shuffled_classes_have_the_same_sizes_in_another_order() -> None:
    labels = labels_of(*[500] * 10)
    plain = kept_sizes("longtail", labels, factor=100)
    shuffled = [kept_sizes("longtail", labels, seed, factor=100, shuffle_classes=True) for seed in range(3)]
    assert all(sorted(sizes, reverse=True) == plain for sizes in shuffled)
    assert len({tuple(sizes) for sizes in shuffled}) == 3


@pytest.mark.parametrize(
    ("ids", "share", "minority"),
    [
        ("climb", 0.1, [0]),
        ("climb", 0.3, [0, 2, 4]),
        ("climb", 0.5, [0, 2, 4, 6, 8]),
        ("climb", 0.7, [0, 2, 4, 6, 8, 1, 3]),
        ("half", 0.5, [5, 6, 7, 8, 9]),
        ("half", 0.1, [9]),
        ((3, 1, 3), 0.5, [1, 3]),
    ],
)
def test_minority_classes_are_those_of_the_papers(ids: object, share: float, minority: list[int]) -> None:
    assert minority_ids(ids, share, 10) == minority  # type: ignore[arg-type]


def test_step_cuts_each_minority_class_alone() -> None:
    labels = labels_of(100, 100, 55, 100, 4)
    assert kept_sizes("step", labels, factor=10, share=0.6) == [10, 100, 5, 100, 1]
    assert kept_sizes("step", labels, factor=0.1, ids=[1]) == [100, 10, 55, 100, 4]


def test_step_refuses_classes_that_do_not_exist() -> None:
    with pytest.raises(ConfigError, match="ids must be classes 0 to 4, not 7"):
        kept_sizes("step", labels_of(9, 9, 9, 9, 9), ids=[0, 7])


def test_minority_alone_is_cut_to_the_factor() -> None:
    labels = labels_of(900, 300)
    assert kept_sizes("minority", labels, factor=10) == [900, 90]
    assert kept_sizes("minority", labels, factor=20) == [900, 45]
    assert kept_sizes("minority", labels_of(900, 0, 300, 500), factor=9) == [900, 0, 100, 500]


def test_minority_refuses_a_factor_that_the_data_exceed_already() -> None:
    with pytest.raises(ConfigError, match="factor must be at least the data's own 3, not 2"):
        kept_sizes("minority", labels_of(900, 300), factor=2)
    assert kept_sizes("minority", labels_of(900, 300), factor=3) == [900, 300]


@pytest.mark.parametrize("name", ["longtail", "step", "minority"])
def test_a_single_class_stays_whole(name: str) -> None:
    assert kept_sizes(name, labels_of(30), factor=10) == [30]


def test_natural_keeps_every_row() -> None:
    assert kept_sizes("natural", labels_of(3, 1, 8)) == [3, 1, 8]


@pytest.mark.parametrize("factor", [0, -1, float("inf"), float("nan")])
def test_a_factor_must_be_a_positive_number(factor: float) -> None:
    with pytest.raises(ConfigError, match="factor"):
        IMBALANCES.build("longtail", {"factor": factor})


@pytest.mark.parametrize("name", IMBALANCES.names())
@given(sizes=st.lists(st.integers(0, 60), min_size=1, max_size=12).filter(any), seed=st.integers(0, 2**32))
@settings(max_examples=40, deadline=None)
def test_rows_are_sorted_distinct_and_drawn_from_the_stream_alone(
    name: str, sizes: list[int], seed: int
) -> None:
    labels = labels_of(*sizes)
    arguments = {"factor": 60.0} if "factor" in IMBALANCES.entry(name).parameters else {}
    keep = IMBALANCES.build(name, arguments)
    rows = keep(labels, np.random.default_rng(seed))
    assert (np.diff(rows) > 0).all()
    assert rows[0] >= 0
    assert rows[-1] < len(labels.y)
    assert (rows == keep(labels, np.random.default_rng(seed))).all()
    kept = class_sizes(labels._replace(y=labels.y[rows]))
    assert ((kept > 0) == (np.array(sizes) > 0)).all()
