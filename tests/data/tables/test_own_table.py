"""Tables of the user's own."""

from __future__ import annotations

import gzip
import io
import math
import sys
from pathlib import Path
from typing import Any

import bad_tables
import pytest
import torch

from counterpoise.data.own import open_data, read_table
from counterpoise.data.tables.csv_file import read_csv
from counterpoise.data.tables.splitting import Splitting
from counterpoise.errors import ConfigError, DataError

SQRT_3_2 = math.sqrt(1.5)


def written(folder: Path, *rows: str, name: str = "t.csv", **how: str) -> Path:
    path = folder / name
    path.write_text("\n".join(rows) + "\n", **how)
    return path


def by_class(*cells: str) -> list[str]:
    """Five rows of each class, equal but for their class: any split leaves four and one."""
    return [f"{cell},{label}" for label, cell in zip("pqrs", cells, strict=False) for _ in range(5)]


def columns_of(x: torch.Tensor, y: torch.Tensor, label: int) -> list[float]:
    rows = x[y == label]
    assert (rows == rows[0]).all()
    return rows[0].tolist()


def test_numbers_are_standardised_by_the_training_rows(tmp_path: Path) -> None:
    data = read_table(written(tmp_path, "a,label", *by_class("1", "3")), "label")
    assert data.classes == ("p", "q")
    assert (len(data.train.y), len(data.test.y)) == (8, 2)
    assert data.train.y.bincount().tolist() == [4, 4]
    assert data.train.x[:, 0].tolist() == [-1.0] * 4 + [1.0] * 4  # mean 2, deviation 1
    assert data.test.x.tolist() == [[-1.0], [1.0]]


def test_a_missing_number_takes_the_median_and_an_indicator(tmp_path: Path) -> None:
    data = read_table(written(tmp_path, "a,label", *by_class("1", "3", "NA")), "label")
    # four 1s, four 3s and four gaps filled with 2: variance 8 / 12
    expected = [[-SQRT_3_2, 0.0], [SQRT_3_2, 0.0], [0.0, 1.0]]
    for label in range(3):
        assert columns_of(*data.train, label) == pytest.approx(expected[label])
        assert columns_of(*data.test, label) == pytest.approx(expected[label])
    assert any("median" in note and note.endswith(": a 5") for note in data.notes)


def test_words_are_one_hot_and_a_missing_one_is_a_category(tmp_path: Path) -> None:
    data = read_table(written(tmp_path, "a,label", *by_class("red", "?", "blue")), "label")
    # alphabetical: (missing), blue, red
    assert [columns_of(*data.train, label) for label in range(3)] == [[0, 0, 1], [1, 0, 0], [0, 1, 0]]
    assert any("category of their own: a" in note for note in data.notes)


def test_a_word_that_no_training_row_holds_has_one_slot(tmp_path: Path) -> None:
    rows = [f"id{row},{'pq'[row % 2]}" for row in range(10)]
    data = read_table(written(tmp_path, "a,label", *rows), "label")
    assert data.train.x.shape == (8, 9)  # eight known words and the slot of the others, which sorts first
    assert data.test.x.tolist() == [[1.0] + [0.0] * 8] * 2
    assert data.train.x[:, 0].sum() == 0
    assert any("share one category: a" in note for note in data.notes)


def column_warnings(path: Path, **named: Any) -> list[str]:
    return [note for note in read_table(path, "label", **named).notes if note.startswith("column ")]


def test_a_column_that_names_rows_is_noted(tmp_path: Path) -> None:
    rows = [f"p{row:03},{['oslo', 'rome'][row % 3 // 2]},{'pq'[row % 2]}" for row in range(40)]
    path = written(tmp_path, "patient_id,town,label", *rows)
    (note,) = column_warnings(path)
    assert note.startswith("column 'patient_id' holds 40 different words in 40 rows")
    assert 'drop = ["patient_id"] leaves it out' in note
    assert "comma" not in note
    assert column_warnings(path, drop=["patient_id"]) == []
    assert column_warnings(path, categorical=["patient_id"]) == []


def test_dates_are_noted(tmp_path: Path) -> None:
    rows = [f"{1 + row % 12}.3.2024,{row % 9},{'pq'[row % 2]}" for row in range(40)]
    (note,) = column_warnings(written(tmp_path, "day,age,label", *rows))
    assert "they look like dates, and say nothing about later ones" in note


def test_numbers_with_a_decimal_comma_are_noted(tmp_path: Path) -> None:
    rows = [f'"{row % 7},{row % 2}",{row % 9},{"pq"[row % 2]}' for row in range(40)]
    (note,) = column_warnings(written(tmp_path, "dose,age,label", *rows))
    assert note.startswith("column 'dose' holds 14 different words in 40 rows")
    assert "a decimal comma, such as '0,0'; write 0.0, or divide the cells by semicolons" in note


def leaky(folder: Path, *numbers: int, name: str = "id") -> Path:
    """A file whose first column is the given numbers, sorted by class."""
    half = len(numbers) // 2
    rows = [f"{number},{place % 7},{'p' if place < half else 'q'}" for place, number in enumerate(numbers)]
    return written(folder, f"{name},a,label", *rows)


COUNTS = {
    "from one": [*range(1, 41)],
    "from zero": [*range(40)],
    "from anywhere": [*range(1000, 1040)],
    "downwards": [*range(40, 0, -1)],
    "in any order": [*range(1, 41, 2), *range(2, 41, 2)],
}


@pytest.mark.parametrize("numbers", COUNTS.values(), ids=COUNTS)
def test_a_column_that_counts_the_rows_is_noted(tmp_path: Path, numbers: list[int]) -> None:
    path = leaky(tmp_path, *numbers)
    (note,) = column_warnings(path)
    assert note.startswith(f"column 'id' counts the rows, {min(numbers)} to {max(numbers)}: ")
    assert 'drop = ["id"] leaves it out' in note
    assert 'numeric = ["id"] keeps it' in note
    assert column_warnings(path, drop=["id"]) == []
    assert column_warnings(path, numeric=["id"]) == []


NO_COUNTS = {
    "a gap": [*range(39), 40],
    "twice": [*range(39), 38],
    "few": [*range(9)],
    "years": [1990 + place % 20 for place in range(40)],
}


@pytest.mark.parametrize("numbers", NO_COUNTS.values(), ids=NO_COUNTS)
def test_other_numbers_are_not_taken_for_a_count(tmp_path: Path, numbers: list[int]) -> None:
    assert column_warnings(leaky(tmp_path, *numbers, name="dose")) == []


@pytest.mark.parametrize("name", ["Unnamed: 0", "Unnamed: 0.1", "__index_level_0__"])
def test_an_index_that_pandas_read_and_wrote_again_is_left_out_with_gaps_too(
    tmp_path: Path, name: str
) -> None:
    path = leaky(tmp_path, *range(0, 80, 2), name=name)
    data = read_table(path, "label")
    assert data.input_shape == (1,)
    assert any(note.startswith("index of pandas") and f'numeric = ["{name}"]' in note for note in data.notes)
    assert read_table(path, "label", numeric=[name]).input_shape == (2,)
    # the same name over other cells is a column like any other
    assert read_table(leaky(tmp_path, *[0, 1] * 20, name=name), "label").input_shape == (2,)


def test_numbers_with_the_name_of_an_identifier_are_noted(tmp_path: Path) -> None:
    (note,) = column_warnings(leaky(tmp_path, *range(0, 80, 2), name="PatientID"))
    assert note.startswith("column 'PatientID' has a different whole number in each row, and the name of an")
    assert 'drop = ["PatientID"] leaves it out' in note
    (note,) = column_warnings(leaky(tmp_path, *(place % 20 for place in range(40)), name="doctor_id"))
    assert note.startswith("column 'doctor_id' has the name of an identifier and is read as a number: ")
    assert 'categorical = ["doctor_id"] reads it as words' in note


def test_a_nameless_index_of_pandas_is_left_out_with_a_note(tmp_path: Path) -> None:
    data = read_table(leaky(tmp_path, *range(40), name=""), "label")
    assert data.input_shape == (1,)
    assert "column 1 has no name and numbers the rows: left out; with a name it is kept" in data.notes


@pytest.mark.parametrize(("name", "mark"), [("t.csv.gz", ","), ("t.TSV.GZ", "\t")])
def test_a_packed_table_is_the_table(tmp_path: Path, name: str, mark: str) -> None:
    plain = bad_tables.table(*bad_tables.GOOD).replace(b",", mark.encode())
    (tmp_path / name).write_bytes(gzip.compress(plain))
    (tmp_path / "t.csv").write_bytes(plain)
    packed, open_ = open_data(tmp_path / name, label="label"), read_table(tmp_path / "t.csv", "label")
    assert torch.equal(packed.train.x, open_.train.x)
    assert (packed.name, packed.classes, [*packed.files]) == ("t", open_.classes, [name])


def test_a_packed_table_is_unpacked_up_to_a_limit(tmp_path: Path) -> None:
    content = bad_tables.table(*bad_tables.GOOD)
    (tmp_path / "t.csv.gz").write_bytes(gzip.compress(content * 20))
    assert read_csv(tmp_path / "t.csv.gz", 20 * len(content)).rows[-1] == 20 * len(bad_tables.GOOD)
    with pytest.raises(DataError, match=r"t\.csv\.gz: unpacks to more than 500 bytes"):
        read_csv(tmp_path / "t.csv.gz", 500)


def test_more_words_than_are_legal_say_how_to_leave_the_column_out(tmp_path: Path) -> None:
    rows = [f"p{row},{row},{'pq'[row % 2]}" for row in range(1500)]
    with pytest.raises(DataError, match=r'holds 1,200 categories.*drop = \["patient"\] leaves it out'):
        read_table(written(tmp_path, "patient,age,label", *rows), "label")
    rows = [f'"{row},5",{row},{"pq"[row % 2]}' for row in range(1500)]
    with pytest.raises(DataError, match=r"decimal point in place of the comma in '0,5'"):
        read_table(written(tmp_path, "dose,age,label", *rows), "label")


def test_numbers_sort_by_value_and_words_by_letter(tmp_path: Path) -> None:
    rows = [f"{row},{label}" for row, label in enumerate(["10", "2", "-1"] * 2)]
    assert read_table(written(tmp_path, "a,label", *rows), "label").classes == ("-1", "2", "10")
    rows = [f"{row},{label}" for row, label in enumerate(["10", "2", "x"] * 2)]
    assert read_table(written(tmp_path, "a,label", *rows), "label").classes == ("10", "2", "x")


@pytest.mark.parametrize("mark", [",", ";", "\t", "|"])
def test_the_delimiter_is_found(tmp_path: Path, mark: str) -> None:
    rows = [f'{row}{mark}"Mr{mark} Smith, {row % 2}"{mark}{"ab"[row % 2]}' for row in range(10)]
    data = read_table(written(tmp_path, f"n{mark}who{mark}label", *rows), "label")
    assert data.input_shape == (3,)
    assert data.classes == ("a", "b")


def test_a_client_column_gives_natural_clients(tmp_path: Path) -> None:
    rows = [f"{row},{'pq'[row % 2]},{site}" for row, site in enumerate(["10", "9", "10", "9"] * 5)]
    data = read_table(written(tmp_path, "a,label,site", *rows), "label", client="site")
    assert data.client_names == ("9", "10")
    assert data.input_shape == (1,)
    assert data.clients is not None
    assert data.clients.tolist() == [
        1 - label for label in data.train.y.tolist()
    ]  # p rows are those of site 10


def test_a_client_without_training_rows_is_left_out(tmp_path: Path) -> None:
    rows = [f"{row},{'pq'[row % 2]},c{row}" for row in range(10)]
    data = read_table(written(tmp_path, "a,label,site", *rows), "label", client="site")
    assert len(data.client_names) == 8
    assert data.clients is not None
    assert sorted(data.clients.tolist()) == list(range(8))
    assert "2 clients have no training sample and are left out" in data.notes


def test_latin_1_is_read_and_said_so(tmp_path: Path) -> None:
    rows = [f"{row},{['süd', 'nord'][row % 2]}" for row in range(10)]
    data = read_table(written(tmp_path, "a,label", *rows, encoding="latin-1"), "label")
    assert data.classes == ("nord", "süd")
    assert "not UTF-8, read as Latin-1" in data.notes


def test_a_client_may_be_called_na(tmp_path: Path) -> None:
    rows = [f"{row},{'pq'[row % 2]},{['NA', 'EU'][row % 4 // 2]}" for row in range(20)]
    data = read_table(written(tmp_path, "a,label,region", *rows), "label", client="region")
    assert data.client_names == ("EU", "NA")


def test_the_split_follows_the_seed(tmp_path: Path) -> None:
    path = written(tmp_path, "a,label", *[f"{row},{'pq'[row % 2]}" for row in range(100)])
    first, again, other = (read_table(path, "label", how=Splitting(seed=seed)).test.x for seed in (0, 0, 1))
    assert torch.equal(first, again)
    assert not torch.equal(first, other)
    assert len(first) == 20


def test_columns_can_be_forced_or_dropped(tmp_path: Path) -> None:
    rows = [f"{row % 3},{row},{'pq'[row % 2]}" for row in range(30)]
    path = written(tmp_path, "code,id,label", *rows)
    data = read_table(path, "label", categorical=["code"], drop=["id"])
    assert data.input_shape == (3,)
    assert set(data.train.x.unique().tolist()) == {0.0, 1.0}


def test_a_constant_column_is_dropped_and_said_so(tmp_path: Path) -> None:
    data = read_table(
        written(tmp_path, "a,b,label", *[f"{row},7,{'pq'[row % 2]}" for row in range(10)]), "label"
    )
    assert data.input_shape == (1,)
    assert "constant over the training rows, dropped: b" in data.notes


def test_parquet_equals_csv(tmp_path: Path) -> None:
    ages = [None if row % 7 == 0 else row / 4 for row in range(30)]
    towns = [["Rome", "Oslo", None][row % 3] for row in range(30)]
    labels = [row % 2 for row in range(30)]
    rows = [
        f"{'' if age is None else age},{town or ''},{label}"
        for age, town, label in zip(ages, towns, labels, strict=True)
    ]
    columnar = bad_tables.read_content(
        tmp_path, parquet_bytes(age=ages, town=towns, label=labels), "t.parquet"
    )
    delimited = read_table(written(tmp_path, "age,town,label", *rows), "label")
    assert torch.equal(columnar.train.x, delimited.train.x)
    assert torch.equal(columnar.test.y, delimited.test.y)
    assert columnar.classes == delimited.classes == ("0", "1")


def parquet_bytes(**columns: list[Any]) -> bytes:
    pyarrow = pytest.importorskip("pyarrow")
    from pyarrow import parquet

    stream = io.BytesIO()
    parquet.write_table(pyarrow.table(columns), stream)
    return stream.getvalue()


LABELS = [0, 1, 0, 1]
NUMBERS = [1.0, 2.0, 3.0, 4.0]


@pytest.mark.parametrize(
    ("columns", "reason"),
    [
        ({"a": [[1], [2], [3], [4]], "label": LABELS}, "column 'a' holds list<"),
        ({"a": [b"\xff"] * 4, "label": LABELS}, "column 'a' holds binary"),
        ({"a": [1.0, 2.0, math.inf, 4.0], "label": LABELS}, "row 3: 'a' holds 'inf'"),
        ({"a": NUMBERS, "label": [0, 1, None, 1]}, "row 3: 'label' is missing"),
        ({"a": NUMBERS, "lable": LABELS}, "no column 'label'; did you mean 'lable'?"),
        ({"a": [], "label": []}, "has 0 rows"),
        ({"label": LABELS}, "has 1 columns"),
    ],
)
def test_a_bad_parquet_table_is_refused(tmp_path: Path, columns: dict[str, list[Any]], reason: str) -> None:
    with pytest.raises(DataError, match=r"t\.parquet: ") as refused:
        bad_tables.read_content(tmp_path, parquet_bytes(**columns), "t.parquet")
    assert reason in str(refused.value)


def test_a_cut_parquet_file_is_refused(tmp_path: Path) -> None:
    content = parquet_bytes(a=NUMBERS, label=LABELS)
    for length in range(1, len(content), 97):
        with pytest.raises(DataError, match=r"t\.parquet: damaged or not a Parquet file"):
            bad_tables.read_content(tmp_path, content[:length], "t.parquet")


def test_a_parquet_file_of_many_equal_cells_is_refused_by_its_footer(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("counterpoise.data.tables.parquet_file.MAX_CELLS", 1_000)
    with pytest.raises(DataError, match=r"has 501 rows.*needs 1 row to 1,000 cells"):
        bad_tables.read_content(tmp_path, parquet_bytes(a=[1] * 501, label=[0] * 501), "t.parquet")


def test_digits_typed_as_words_stay_words(tmp_path: Path) -> None:
    content = parquet_bytes(
        zip=[str(row % 2) for row in range(20)], label=[row % 4 // 2 for row in range(20)]
    )
    assert bad_tables.read_content(tmp_path, content, "t.parquet").input_shape == (2,)


def test_parquet_without_pyarrow_names_the_extra(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "pyarrow", None)
    path = written(tmp_path, "PAR1", name="t.parquet")
    with pytest.raises(DataError, match=r"t\.parquet.*counterpoise\[parquet\]"):
        read_table(path, "label")


@pytest.mark.parametrize("share", [0.0, 0.5, 1.0, -0.1, math.nan])
def test_a_share_that_could_empty_a_class_is_refused(tmp_path: Path, share: float) -> None:
    with pytest.raises(ConfigError, match="test_share"):
        read_table(written(tmp_path, "a,label", *by_class("1", "2")), "label", how=Splitting(share))


def test_rows_that_cannot_be_used_are_skipped_where_asked_and_listed(tmp_path: Path) -> None:
    good = [f"{row},{'ab'[row % 3 // 2]},{'pq'[row % 2]}" for row in range(20)]
    whole = read_table(written(tmp_path, "age,town,label", *good), "label", "town")
    bad = ["7,a", "8,b,", "old,a,p", "9,,q", "1e300,b,q"]
    path = written(tmp_path, "age,town,label", *good, *bad)
    with pytest.raises(DataError, match="row 22: has 2 cells"):
        read_table(path, "label", "town")
    data = read_table(path, "label", "town", on_error="skip")
    assert torch.equal(data.train.x, whole.train.x)
    assert torch.equal(data.test.y, whole.test.y)
    listed = " ".join(note for note in data.notes if note.startswith("skipped"))
    reasons = ("22: has 2 cells", "23: 'label' is missing", "24: 'age' holds 'old'", "25: 'town' is missing")
    for reason in (*reasons, "26: 'age' holds '1e300'"):
        assert f"row {reason}" in listed


def test_a_table_of_which_most_rows_cannot_be_used_is_refused(tmp_path: Path) -> None:
    path = written(tmp_path, "age,label", "1,p", "2,q", "3,p", *["4,"] * 5)
    with pytest.raises(
        DataError, match="5 of 8 rows cannot be used, more than half; the first is row 5: 'label'"
    ):
        read_table(path, "label", on_error="skip")


def test_a_class_or_client_named_like_a_gap_stays_one_with_a_note(tmp_path: Path) -> None:
    rows = [f"{row},{('NA', 'b')[row % 2]},{('q', 'NA', 'null')[row % 3]}" for row in range(30)]
    data = read_table(written(tmp_path, "age,town,label", *rows), "label", "town")
    assert data.classes == ("NA", "null", "q")
    said = [note for note in data.notes if "not as a gap" in note]
    assert [note.partition(",")[0] for note in said] == [
        "'label' is 'NA' in 10 rows",
        "'label' is 'null' in 10 rows",
        "'town' is 'NA' in 15 rows",
    ]


def test_a_file_that_begins_with_a_sample_is_pointed_out(tmp_path: Path) -> None:
    said = "2 of 3 columns have a number as name, such as '5.1': row 1 is read as the header"
    data = read_table(
        written(tmp_path, "5.1,3.5,p", *(f"{row},{-row},p\n{row},2,q" for row in range(9))), "p"
    )
    assert any(note.startswith(said) for note in data.notes)
    named = read_table(
        written(tmp_path, "a,2019,p", *(f"{row},{-row},p\n{row},2,q" for row in range(9))), "p"
    )
    assert not any("read as the header" in note for note in named.notes)
