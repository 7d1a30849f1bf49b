"""Which rows of a table test: a file, a column, whole groups, the latest ones, or a share that data.seed draws."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from counterpoise.data.own import read_table
from counterpoise.data.prepare import load_data
from counterpoise.data.split import group_split, latest_split
from counterpoise.data.tables.splitting import Splitting
from counterpoise.errors import ConfigError, DataError


def written(folder: Path, *rows: str, name: str = "t.csv") -> Path:
    (folder / name).write_text("\n".join(rows) + "\n")
    return folder / name


def plain(folder: Path) -> Path:
    return written(folder, "a,label", *(f"{i},{'pq'[i % 2]}" for i in range(40)))


def test_data_seed_draws_the_test_rows(tmp_path: Path) -> None:
    path = str(plain(tmp_path))
    drawn = [load_data("table", path=path, label="label", seed=seed).test.x.tolist() for seed in (0, 0, 1)]
    assert drawn[0] == drawn[1] != drawn[2]
    assert drawn[0] == read_table(path, "label").test.x.tolist()


def test_a_test_file_is_encoded_by_the_training_rows_alone(tmp_path: Path) -> None:
    train = written(tmp_path, "a,b,label", "1,x,p", "3,y,q", "1,x,p", "3,y,q")
    test = written(tmp_path, "label,a,b", "q,5,z", "p,,x", name="t.tsv.csv")
    data = read_table(train, "label", how=Splitting(test=test))
    # mean 2, deviation 1; a gap takes the median 2; z is a word of no training row
    assert data.train.x.tolist() == [[-1, 1, 0], [1, 0, 1], [-1, 1, 0], [1, 0, 1]]
    assert data.test.x.tolist() == [[3, 0, 0], [0, 1, 0]]
    assert data.test.y.tolist() == [1, 0]
    assert data.notes[-1] == "2 of 6 samples are the test set: those of t.tsv.csv"
    assert list(data.files) == ["t.csv", "test: t.tsv.csv"]
    # data.root holds both files
    named = load_data("table", root=tmp_path, path="t.csv", test="t.tsv.csv", label="label")
    assert named.test.x.tolist() == data.test.x.tolist()


def test_a_column_says_which_rows_test(tmp_path: Path) -> None:
    rows = ["1,p,train", "3,q,Training", "7,p,TEST", "9,q,test"]
    data = read_table(written(tmp_path, "a,label,part", *rows), "label", how=Splitting(split="part"))
    assert data.input_shape == (1,)
    assert data.test.x.flatten().tolist() == [5, 7]  # mean 2, deviation 1
    assert data.notes[-1] == "2 of 4 samples are the test set: those whose 'part' says so"


@pytest.mark.parametrize("times", [range(10), [f"2024-01-{day:02}" for day in range(1, 11)]])
def test_the_latest_rows_test(tmp_path: Path, times: list[object]) -> None:
    rows = [f"{i},{'pq'[i % 2]},{time}" for i, time in enumerate(times)]
    data = read_table(written(tmp_path, "a,label,when", *reversed(rows)), "label", how=Splitting(time="when"))
    # a was 0 to 7 in training: mean 3.5, and 8 and 9 are above all of them
    assert data.input_shape == (1,)
    assert data.train.x.mean().item() == pytest.approx(0, abs=1e-6)
    assert data.test.x.min() > data.train.x.max()
    assert data.test.y.tolist() == [1, 0]


def test_dates_in_different_zones_are_put_in_order(tmp_path: Path) -> None:
    when = ["2024-01-01T09:00+00:00", "2024-01-01T10:00+05:00", "2024-01-01T08:30Z", "2024-01-01"]
    rows = [f"{i},{label},{time}" for i, (label, time) in enumerate(zip("pqpq", when, strict=True))]
    data = read_table(written(tmp_path, "a,label,when", *rows), "label", how=Splitting(0.25, time="when"))
    assert data.test.y.tolist() == [0]  # row 1, at 9:00 UTC; the second is at 5:00
    assert data.test.x.item() == pytest.approx(-2 * 1.5**0.5)  # (0 - 2) by the deviation of 1, 2, 3


def test_rows_of_one_time_stay_together() -> None:
    # the last time has 3 of 10 rows, nearer to 2 than the 5 of the last two
    split = latest_split(np.array([0, 1, 2, 2, 2, 1, 0, 0, 0, 0]), 0.2)
    assert split.test.tolist() == [2, 3, 4]
    assert latest_split(np.array([0, 1, 2, 2, 2, 1, 0, 0, 0, 0]), 0.45).test.tolist() == [1, 2, 3, 4, 5]


def test_no_patient_is_on_both_sides(tmp_path: Path) -> None:
    rows = [f"{i},{'pq'[i % 3 == 0]},{i // 4}" for i in range(120)]
    path = written(tmp_path, "a,label,patient", *rows)
    drawn = []
    for seed in range(3):
        data = read_table(path, "label", how=Splitting(seed=seed, group="patient"))
        assert data.input_shape == (1,)
        where = data.test.x.flatten().sort().values
        assert len(where) % 4 == 0  # whole patients of four rows
        assert where.view(-1, 4).diff().max() < 0.05  # consecutive rows of a
        assert data.test.y.bincount().tolist() == pytest.approx([16, 8], abs=3)
        drawn.append(where.tolist())
    assert drawn[0] != drawn[1] != drawn[2]


def test_dates_as_they_are_written_with_dots(tmp_path: Path) -> None:
    """As text 9.1. would be the latest."""
    days = ["9.1.2024", "10.01.2024 06:15", "02.2.2024", "1.03.2024", "10.01.2024 18:00"]
    rows = [f"{place},{'pq'[place % 2]},{day}" for place, day in enumerate(days)]
    data = read_table(written(tmp_path, "a,label,when", *rows), "label", how=Splitting(0.4, time="when"))
    raw = data.source.columns.numbers["a"]
    assert sorted((data.test.x[:, 0] * raw.deviation + raw.mean + raw.centre).tolist()) == [2.0, 3.0]


def test_groups_by_hand() -> None:
    # of class 1 only group 0 holds samples, so it trains; of 0, 8 rows in groups of 2
    y, groups = np.array([1, 1, *[0] * 8]), np.array([0, 0, 1, 1, 2, 2, 3, 3, 4, 4])
    split = group_split(y, groups, 0.25, np.random.default_rng(0))
    assert len(split.test) == 2
    assert len(set(groups[split.test])) == 1
    assert 0 not in groups[split.test]
    # a class of two groups tests with the smaller one, though a half is farther from 0.1 than nothing
    y, groups = np.array([*[1] * 5, *[0] * 20]), np.array([0, 0, 0, 1, 1, *range(2, 22)])
    for seed in range(5):
        split = group_split(y, groups, 0.1, np.random.default_rng(seed))
        assert split.test[:2].tolist() == [3, 4]
        assert len(split.test) == 4


@settings(deadline=None, max_examples=60)
@given(
    st.lists(st.tuples(st.integers(0, 2), st.integers(0, 7)), min_size=1, max_size=60),
    st.sampled_from([0.1, 0.2, 0.4]),
    st.integers(0, 99),
)
def test_whole_groups_and_every_class_in_training(
    rows: list[tuple[int, int]], share: float, seed: int
) -> None:
    y, groups = (np.unique(column, return_inverse=True)[1] for column in zip(*rows, strict=True))
    train, test = group_split(y, groups, share, np.random.default_rng(seed))
    assert sorted([*train, *test]) == list(range(len(rows)))
    assert not {*groups[train]} & {*groups[test]}
    assert {*y[train]} == {*y}
    for label in {*y} - {
        *y[test]
    }:  # untested only where each group of the class is all that is left of some class
        for group in {*groups[y == label]}:
            rest = {*y[train[groups[train] != group]]}
            assert rest != {*y}


def test_clients_may_be_the_groups(tmp_path: Path) -> None:
    rows = [f"{i},{'pq'[i % 2]},h{i // 10}" for i in range(50)]
    path = written(tmp_path, "a,label,hospital", *rows)
    data = read_table(path, "label", "hospital", Splitting(group="hospital"))
    assert len(data.test.y) == 10
    assert len(data.client_names) == 4


ONE_LINE = [
    (
        Splitting(split="s", group="g"),
        r"^data.split and data.group both say which rows test; give one of them$",
    ),
    (Splitting(split="g"), r"t.csv: row 2: 'g' holds '0'; needs train or test$"),
    (Splitting(split="one"), r"t.csv: 'one' says test in all rows; needs both$"),
    (Splitting(group="one"), r"t.csv: no group of 'one' can be left out of training: there is only one$"),
    (Splitting(group="label"), r"t.csv: column 'label' is named for two uses$"),
    (Splitting(group="wide"), r"no group of 'wide' .*: each of them holds all samples of a class$"),
    (
        Splitting(time="s"),
        r"t.csv: row 3: 's' holds 'x'; needs numbers in all rows, or dates such as 2024-12-31",
    ),
    (Splitting(time="one"), r"t.csv: row 2: 'one' holds 'test'; needs numbers in all rows, or dates"),
    (Splitting(time="same"), r"t.csv: 'same' is the same in all rows; needs two times or more$"),
    (Splitting(time="nothing"), r"t.csv: row 1: no column 'nothing'"),
    (Splitting(test=Path("no.csv")), r"no.csv: no such file"),
]


@pytest.mark.parametrize(("how", "words"), ONE_LINE)
def test_a_split_that_cannot_be_made_is_one_line(tmp_path: Path, how: Splitting, words: str) -> None:
    rows = [f"{i},{'pq'[i % 2]},{i // 2},test,{'x' if i else 3},{i % 2},7" for i in range(12)]
    path = written(tmp_path, "a,label,g,one,s,wide,same", *rows)
    with pytest.raises((ConfigError, DataError), match=words) as caught:
        read_table(path, "label", how=how)
    assert "\n" not in str(caught.value)


def test_a_test_label_that_is_never_trained_is_told_by_its_row(tmp_path: Path) -> None:
    train, test = plain(tmp_path), written(tmp_path, "a,label", "1,p", "2,r", name="other.csv")
    with pytest.raises(DataError, match=r"other.csv: row 3: 'label' holds 'r', which is in no training row$"):
        read_table(train, "label", how=Splitting(test=test))
    test = written(tmp_path, "b,label", "1,p", "2,q", name="other.csv")
    with pytest.raises(DataError, match=r"other.csv: row 1: no column 'a', which the model needs$"):
        read_table(train, "label", how=Splitting(test=test))


def test_the_training_file_tests_nothing(tmp_path: Path) -> None:
    """Its scores passed for a test."""
    train = plain(tmp_path)
    with pytest.raises(ConfigError, match=r"data\.test is the training file itself, .*t\.csv; needs other"):
        read_table(train, "label", how=Splitting(test=train.parent / "x" / ".." / train.name))
