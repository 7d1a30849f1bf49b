"""Cross-validation of own data: every row tests once, classes evenly, groups whole, every class in training."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from counterpoise.data.folds import TRAINS, Fold, deal_groups, deal_rows, fold_rows
from counterpoise.data.prepare import load_data
from counterpoise.errors import ConfigError, DataError


@given(st.lists(st.integers(1, 30), min_size=1, max_size=5), st.integers(2, 7), st.integers(0, 99))
def test_rows_are_dealt_evenly_in_all_and_by_class(sizes: list[int], folds: int, seed: int) -> None:
    rng = np.random.default_rng(seed)
    strata = rng.permutation(np.repeat(np.arange(len(sizes)), sizes))
    dealt = deal_rows(strata, folds, rng)
    for stratum, size in enumerate(sizes):
        counts = np.bincount(dealt[strata == stratum] + 1, minlength=folds + 1)
        assert counts[0] == (size == 1)  # alone, it trains
        assert np.ptp(counts[1:]) <= 1
    assert np.ptp(np.bincount(dealt[dealt != TRAINS], minlength=folds)) <= 1


@settings(deadline=None)
@given(
    st.lists(st.tuples(st.integers(0, 2), st.integers(0, 9)), min_size=1, max_size=60),
    st.integers(2, 5),
    st.integers(0, 99),
)
def test_groups_stay_whole_and_training_has_every_class(
    rows: list[tuple[int, int]], folds: int, seed: int
) -> None:
    y, groups = (np.unique(column, return_inverse=True)[1] for column in zip(*rows, strict=True))
    dealt = deal_groups(y, groups, folds, np.random.default_rng(seed))
    assert len({*zip(groups, dealt, strict=True)}) == len({*groups})
    for fold in range(folds):
        assert {*y[dealt != fold]} == {*y}


def test_equal_groups_are_dealt_evenly() -> None:
    groups = np.repeat(np.arange(20), 5)  # four of class 0 and one of class 1 in each
    y = np.tile([0, 0, 0, 0, 1], 20)
    dealt = deal_groups(y, groups, 5, np.random.default_rng(0))
    assert np.bincount(dealt).tolist() == [20] * 5
    assert np.bincount(dealt[y == 1]).tolist() == [4] * 5


def test_folds_of_a_seed_are_disjoint_and_another_seed_deals_anew() -> None:
    y = np.tile([0, 0, 1], 20)
    tests = [fold_rows("t", y, Fold(place, 4), 0).test.tolist() for place in range(4)]
    assert sorted(row for test in tests for row in test) == list(range(60))
    assert fold_rows("t", y, Fold(0, 4), 1).test.tolist() != tests[0]


@pytest.fixture
def csv(tmp_path: Path) -> Path:
    rows = [f"{i * i % 17},{'pq'[i % 3 == 0]},{i // 4},{i}" for i in range(60)]
    (tmp_path / "t.csv").write_text("\n".join(["a,label,patient,when", *rows]) + "\n")
    return tmp_path / "t.csv"


def test_a_table_is_cross_validated_by_rows_and_by_groups(csv: Path) -> None:
    given = {"path": str(csv), "label": "label", "folds": 5}
    plain = [load_data("table", **given, fold=k, drop=["patient", "when"]) for k in range(5)]
    assert [data.test.y.bincount().tolist() for data in plain] == [[8, 4]] * 5
    assert plain[2].notes[-1] == "12 of 60 samples are the test set: fold 2 of 5 (0 to 4), seed 0"
    whole = [load_data("table", **given, fold=k, group="patient", drop=["a"]) for k in range(5)]
    assert sum(len(data.test.y) for data in whole) == 60
    assert all(len(data.test.y) % 4 == 0 for data in whole)
    assert whole[0].notes[-1].endswith(", whole groups of 'patient'")


def test_arrays_and_images_are_cross_validated(tmp_path: Path) -> None:
    from PIL import Image

    np.savez(tmp_path / "a.npz", x=np.arange(24.0).reshape(12, 2), y=np.tile([0, 1], 6))
    for place in range(6):
        folder = tmp_path / "images" / "pq"[place % 2]
        folder.mkdir(parents=True, exist_ok=True)
        Image.new("L", (2, 2), 40 * place).save(folder / f"{place}.png")
    found = [load_data("arrays", path=str(tmp_path / "a.npz"), folds=3, fold=k) for k in range(3)]
    assert sorted(x for data in found for x in data.test.x[:, 0].tolist()) == list(range(0, 24, 2))
    seen = [load_data("images", path=str(tmp_path / "images"), folds=3, fold=k) for k in range(3)]
    assert sorted(int(x) for data in seen for x in data.test.x[:, 0, 0, 0]) == [0, 40, 80, 120, 160, 200]


@pytest.mark.parametrize(
    ("keys", "words"),
    [
        ({"folds": 5}, "data.fold is missing"),
        ({"fold": 1}, "data.folds is missing"),
        ({"folds": 3, "fold": 3}, "data.fold must be from 0 to 2 of 3 folds, not 3"),
        ({"folds": 1, "fold": 0}, "folds must be"),
        ({"folds": 3, "fold": 0, "time": "when"}, "data.time and data.fold both say which rows test"),
        ({"folds": 20, "fold": 0, "group": "patient"}, "its groups fill 15 folds, not 20; needs fewer folds"),
        ({"folds": 61, "fold": 0}, "its samples fill 60 folds, not 61"),
    ],
)
def test_folds_that_cannot_be_are_one_line(csv: Path, keys: dict[str, object], words: str) -> None:
    with pytest.raises((ConfigError, DataError), match=words) as refused:
        load_data("table", path=str(csv), label="label", **keys)
    assert "\n" not in str(refused.value)


def test_data_with_its_own_test_set_has_no_folds(tmp_path: Path) -> None:
    half = {"x_train": np.zeros((4, 1)), "y_train": np.array([0, 1, 0, 1])}
    np.savez(tmp_path / "a.npz", **half, x_test=np.zeros((2, 1)), y_test=np.array([0, 1]))
    with pytest.raises(
        ConfigError, match=r"data.fold needs a test set to be drawn, and .* has arrays x_test"
    ):
        load_data("arrays", path=str(tmp_path / "a.npz"), folds=2, fold=0)
