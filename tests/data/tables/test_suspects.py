"""Columns that say which row it is are found by their cells and, for numbers, by their names."""

from __future__ import annotations

from pathlib import Path

import pytest

from counterpoise.data.tables.cells import Table
from counterpoise.data.tables.identifiers import DATE, IDENTIFIER
from counterpoise.data.tables.suspects import suspects

ROWS = 30
CASES = {
    "row": [str(row + 5) for row in range(ROWS)],  # counts the rows
    "patient_id": [str(1000 + 7 * row) for row in range(ROWS)],
    "doctor_id": [str(100 + row % 12) for row in range(ROWS)],
    "serial": [f"x{row}" for row in range(ROWS)],  # words, all different
    "city": [("Bonn", "Kiel")[row % 2] for row in range(ROWS)],
    "day": [f"{1 + row % 12:02}.03.2024" for row in range(ROWS)],
    "price": [f"{row},5" for row in range(ROWS)],
    "income": [str(1000 + 7 * row) for row in range(ROWS)],  # all different, and a quantity by its name
    "humid": [str(row * row) for row in range(ROWS)],
    "code_no": ["1", "2", "3"] * 10,  # few: categories
}


def test_each_column_is_judged_by_what_it_holds() -> None:
    found = suspects(Table(Path("t.csv"), CASES, range(2, ROWS + 2), header=1), CASES)
    assert list(found.left_out) == ["row", "patient_id", "serial", "day"]
    assert list(found.doubtful) == ["doctor_id", "price"]
    assert found.coded == ["code_no"]


@pytest.mark.parametrize(
    "cell",
    ["2024-12-31", "2024-12-31 06:15", "2024-12-31T06:15:00", "31.12.2024", "1/2/24", "12/31/2024 6:15"],
)
def test_dates(cell: str) -> None:
    assert DATE.fullmatch(cell)


@pytest.mark.parametrize("cell", ["1.2", "192.168.1.20", "2024-12", "12:30", "A-1.2.2024"])
def test_no_dates(cell: str) -> None:
    assert not DATE.fullmatch(cell)


@pytest.mark.parametrize(
    "name", ["id", "ID", "patient_id", "PatientID", "patientId", "record no", "case-number", "MRN"]
)
def test_names_of_identifiers(name: str) -> None:
    assert IDENTIFIER.search(name)


@pytest.mark.parametrize("name", ["humid", "grid", "casino", "turkey", "paid", "idle", "key figure"])
def test_other_names(name: str) -> None:
    assert not IDENTIFIER.search(name)
