"""The encoder: what it is fitted on, what it makes of other rows, and how it travels."""

from __future__ import annotations

import json
import math
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from counterpoise.data.faults import MAX_CATEGORIES, MAX_COLUMNS
from counterpoise.data.tables import encoder as encoder_module
from counterpoise.data.tables.cells import Table
from counterpoise.data.tables.encoder import Encoder, Number
from counterpoise.data.tables.fit import column_warnings, fit_table
from counterpoise.errors import DataError


def table(**columns: list[str]) -> Table:
    rows = len(next(iter(columns.values())))
    return Table(Path("t.csv"), columns, range(2, rows + 2), header=1)


def taken(whole: Table, rows: list[int]) -> Table:
    columns = {name: [cells[row] for row in rows] for name, cells in whole.columns.items()}
    return whole._replace(columns=columns, rows=[whole.rows[row] for row in rows])


def fit(*given: Any, **named: Any) -> Encoder:
    return fit_table(*given, **named).encoder


def first(count: int) -> np.ndarray:
    return np.arange(count)


@st.composite
def tables(draw: st.DrawFn) -> tuple[Table, int]:
    """Numbers with gaps and words, and how many of the first rows are for training."""
    rows = draw(st.integers(4, 24))
    # A deviation near the smallest float is refused: other rows are then too far from the training rows.
    number = st.floats(-1e6, 1e6, width=32).filter(lambda value: not 0 < abs(value) < 1e-20).map(repr)

    def column(cell: st.SearchStrategy[str]) -> list[str]:
        return draw(st.lists(cell, min_size=rows, max_size=rows))

    found = table(
        a=column(number),
        b=column(st.one_of(number, st.sampled_from(["", "NA", "?"]))),
        w=column(st.sampled_from(["x", "y", "z", "null", "(other)"])),
        clock=[str(1e9 + row / 7) for row in range(rows)],
    )
    return found, draw(st.integers(3, rows))


@given(tables(), st.randoms())
def test_a_row_is_encoded_alike_whatever_rows_are_beside_it(drawn: tuple[Table, int], rng: Any) -> None:
    whole, train = drawn
    fitted = fit(whole, whole.columns, first(train), categorical=["w"])
    rows = rng.choices(range(len(whole.rows)), k=5)
    expected = fitted.transform(whole).x[rows]
    assert fitted.transform(taken(whole, rows)).x.tobytes() == expected.tobytes()


@given(tables())
def test_an_encoder_travels_as_json_unchanged(drawn: tuple[Table, int]) -> None:
    whole, train = drawn
    fitted = fit(whole, whole.columns, first(train), categorical=["w"])
    again = Encoder.from_json(json.loads(json.dumps(fitted.to_json())))
    assert again == fitted
    assert again.names == fitted.names
    assert len(again.names) == again.width == fitted.transform(whole).x.shape[1]


@given(tables())
def test_training_rows_have_zero_mean_and_unit_deviation(drawn: tuple[Table, int]) -> None:
    whole, train = drawn
    fitted = fit(whole, whole.columns, first(train), categorical=["w"])
    x = fitted.transform(whole).x[:train, : len(fitted.numbers)].astype(np.float64)
    np.testing.assert_allclose(x.mean(axis=0), 0, atol=1e-6)
    varies = x.std(axis=0) > 0  # all known values alike: gaps take them too
    np.testing.assert_allclose(x.std(axis=0)[varies], 1, atol=1e-6)
    assert varies[-1]


@given(tables())
def test_what_rows_outside_training_hold_changes_no_statistic(drawn: tuple[Table, int]) -> None:
    whole, train = drawn
    alone = fit(taken(whole, list(range(train))), whole.columns, first(train), categorical=["w"])
    fitted = fit(whole, whole.columns, first(train), categorical=["w"])
    assert fitted.numbers.keys() == alone.numbers.keys()
    for name, number in fitted.numbers.items():
        assert number[:-1] == alone.numbers[name][:-1]
    assert {*fitted.words.get("w", ())} - {*alone.words.get("w", ())} <= {"(other)"}


def test_clean_numbers_are_as_many_inputs() -> None:
    whole = table(a=["1", "3", "9"], b=["2", "5", "7"])
    assert fit(whole, whole.columns, first(2)).names == ("a", "b")


def test_a_gap_in_any_row_of_the_fit_makes_an_indicator_and_one_elsewhere_does_not() -> None:
    whole = table(a=["1", "3", "?"], b=["2", "5", "7"])
    fitted = fit(whole, whole.columns, first(2))
    assert fitted.names == ("a", "b", "a missing")
    elsewhere = fitted.transform(table(a=["3", ""], b=["", "5"])).x
    assert elsewhere.tolist() == [[1, 0, 0], [0, 1, 1]]  # medians 2 and 3.5


def test_unseen_words_share_a_category_where_the_fit_saw_one_and_are_zeros_elsewhere() -> None:
    whole = table(u=["x", "y", "z"], w=["p", "q", "p"])
    fitted = fit(whole, whole.columns, first(2))
    assert fitted.names == ("u=(other)", "u=x", "u=y", "w=p", "w=q")
    elsewhere = fitted.transform(table(u=["t", "", "y"], w=["t", "", "q"])).x
    assert elsewhere.tolist() == [[1, 0, 0, 0, 0], [1, 0, 0, 0, 0], [0, 0, 1, 0, 1]]


def test_a_constant_column_is_left_out_and_may_be_missing_elsewhere() -> None:
    whole = table(a=["1", "3", "9"], unit=["mg", "mg", "g"])
    fitted = fit(whole, whole.columns, first(2))
    assert fitted.names == ("a",)
    assert fitted.transform(table(a=["2"])).x.tolist() == [[0]]


def test_a_column_that_is_not_there_is_named_with_the_file() -> None:
    fitted = fit(table(a=["1", "3"]), ["a"], first(2))
    with pytest.raises(DataError, match=r"^t\.csv: row 1: no column 'a'"):
        fitted.transform(table(b=["1"]))


def test_rows_elsewhere_are_held_to_the_same_size(monkeypatch: pytest.MonkeyPatch) -> None:
    fitted = fit(table(a=["1", "3"]), ["a"], first(2))
    monkeypatch.setattr(encoder_module, "MAX_BYTES", 40)
    fitted.transform(table(a=["1"] * 10))
    with pytest.raises(DataError, match="11 rows of 1 features; at most 40 bytes"):
        fitted.transform(table(a=["1"] * 11))


def test_odd_columns_are_noted_unless_they_were_named() -> None:
    whole = table(id=[str(row) for row in range(20)], who=[f"p{row}" for row in range(20)])
    fitted = fit_table(whole, whole.columns, first(16))
    who, count = column_warnings(whole, fitted, drop=lambda name: f"--drop {name}")
    assert who.startswith("column 'who' holds 20 different words in 20 rows")
    assert count.startswith("column 'id' counts the rows, 0 to 19")
    assert "--drop who leaves it out" in who
    assert "--drop id leaves it out" in count
    assert column_warnings(whole, fitted, numeric=["id"], categorical=["who"]) == ()


GOOD: dict[str, Any] = {"numbers": {"a": [0.0, 0.0, 1.0, 2.0, True]}, "words": {"w": ["x", "y"]}}


def test_the_state_by_hand() -> None:
    found = Encoder.from_json(GOOD)
    assert found == Encoder({"a": Number(0.0, 0.0, 1.0, 2.0, True)}, {"w": ("x", "y")})
    assert found.names == ("a", "a missing", "w=x", "w=y")
    assert found.to_json() == GOOD


BAD: dict[str, Any] = {
    "no object": [],
    "nothing": None,
    "a part too many": {**GOOD, "code": "import os"},
    "a part too few": {"numbers": {}},
    "no columns": {"numbers": {}, "words": {}},
    "numbers in a list": {**GOOD, "numbers": [1]},
    "one column twice": {"numbers": GOOD["numbers"], "words": {"a": ["x"]}},
    "many columns": {**GOOD, "numbers": {str(n): GOOD["numbers"]["a"] for n in range(MAX_COLUMNS + 1)}},
    "too short": {**GOOD, "numbers": {"a": [0.0, 0.0, 1.0, True]}},
    "no list": {**GOOD, "numbers": {"a": 1.0}},
    "a word for a number": {**GOOD, "numbers": {"a": ["0", 0.0, 1.0, 2.0, True]}},
    "no flag": {**GOOD, "numbers": {"a": [0.0, 0.0, 1.0, 2.0, 1]}},
    "a flag for a number": {**GOOD, "numbers": {"a": [True, 0.0, 1.0, 2.0, True]}},
    "not finite": {**GOOD, "numbers": {"a": [0.0, math.nan, 1.0, 2.0, True]}},
    "beyond floats": {**GOOD, "numbers": {"a": [0.0, 10**400, 1.0, 2.0, True]}},
    "no deviation": {**GOOD, "numbers": {"a": [0.0, 0.0, 1.0, 0.0, True]}},
    "no words": {**GOOD, "words": {"w": []}},
    "a word twice": {**GOOD, "words": {"w": ["x", "x"]}},
    "a number for a word": {**GOOD, "words": {"w": ["x", 1]}},
    "letters for words": {**GOOD, "words": {"w": "xy"}},
    "many words": {**GOOD, "words": {"w": [str(n) for n in range(MAX_CATEGORIES + 2)]}},
}


@pytest.mark.parametrize("state", BAD.values(), ids=BAD)
def test_a_state_that_is_none_is_refused_in_one_line(state: Any) -> None:
    with pytest.raises(DataError, match=r"^the encoder.*(must|needs) ") as refused:
        Encoder.from_json(state)
    assert len(str(refused.value)) < 400
    assert "\n" not in str(refused.value)
