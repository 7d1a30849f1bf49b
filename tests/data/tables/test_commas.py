"""Decimal commas are read between semicolons, and nowhere else."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from counterpoise.data.own import read_table
from counterpoise.data.tables.cells import numbers_of
from counterpoise.data.tables.csv_file import read_csv
from counterpoise.errors import DataError


def written(folder: Path, *rows: str) -> Path:
    path = folder / "t.csv"
    path.write_text("\n".join(rows) + "\n")
    return path


def test_between_semicolons_a_number_may_have_a_decimal_comma(tmp_path: Path) -> None:
    rows = [f"{row},5;{'NA' if row == 3 else f'-,{row}e1'};{row}.5,{row};{'pq'[row % 2]}" for row in range(9)]
    table = read_csv(written(tmp_path, "dose;rate;both;label", *rows))
    assert numbers_of(table, "dose").tolist() == [row + 0.5 for row in range(9)]
    rates = numbers_of(table, "rate")
    assert np.isnan(rates[3])
    assert rates[8] == pytest.approx(-8.0)
    assert table.notes == ("numbers with a decimal comma, as in files divided by semicolons: dose, rate",)
    assert table.columns["both"][2] == "2.5,2"


def test_a_column_with_points_and_commas_is_left_as_it_is(tmp_path: Path) -> None:
    """1.234 beside 12,5 is likelier a thousand than one and a bit."""
    table = read_csv(written(tmp_path, "price;label", "1.234;p", "12,5;q"))
    assert table.columns["price"] == ("1.234", "12,5")
    assert table.notes == ()


def test_a_word_among_numbers_with_a_decimal_comma_is_named(tmp_path: Path) -> None:
    rows = [f"{row},5;{'pq'[row % 2]}" for row in range(9)]
    with pytest.raises(DataError, match="row 11: 'dose' holds 'much' among numbers"):
        read_table(written(tmp_path, "dose;label", *rows, "much;p"), "label")
