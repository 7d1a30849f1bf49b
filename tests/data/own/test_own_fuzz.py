"""Damage at random: a file is refused, or read to what it held, or to finite numbers."""

from __future__ import annotations

from pathlib import Path

import bad_arrays
import bad_tables
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from test_bad_files import check_finite

from counterpoise.data.own import open_data
from counterpoise.errors import DataError

CELLS = st.sampled_from(
    ["1", "-2.5", "1e38", "nan", "", "?", "red", '"', "'", "\0", "é", "1_0", "inf", "0x1", " ", "p", "q"]
)
BREAKS = st.sampled_from([",", ";", "\n", "\r\n", "\r", "\t", ",,"])


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("fuzz")


def read_or_refuse(path: Path, content: bytes) -> None:
    path.write_bytes(content)
    message = path.name
    try:
        check_finite(open_data(path, label="label"))
    except DataError as error:
        message = str(error)
    assert path.name in message
    assert len(message.splitlines()) == 1


def damaged(content: bytes, place: int, mask: int) -> bytes:
    place %= len(content)
    return content[:place] + bytes([content[place] ^ mask]) + content[place + 1 :]


@given(st.lists(st.tuples(CELLS, BREAKS), max_size=60))
@settings(max_examples=150, deadline=None)
def test_any_text_is_read_or_refused(folder: Path, pieces: list[tuple[str, str]]) -> None:
    text = "a,label\n1,p\n2,q\n3,p\n4,q\n" + "".join(cell + mark for cell, mark in pieces)
    read_or_refuse(folder / "t.csv", text.encode())


@given(st.integers(0), st.integers(1, 255))
@settings(max_examples=150, deadline=None)
def test_a_damaged_table_is_read_or_refused(folder: Path, place: int, mask: int) -> None:
    read_or_refuse(folder / "t.csv", damaged(bad_tables.table(*bad_tables.GOOD), place, mask))


def test_a_flipped_bit_of_an_npz_is_found_or_does_no_harm(folder: Path) -> None:
    original = bad_arrays.read_bytes(folder, bad_arrays.GOOD)
    refused = 0
    for place in range(len(bad_arrays.GOOD)):
        try:
            data = bad_arrays.read_bytes(folder, damaged(bad_arrays.GOOD, place, 1 << place % 8))
        except DataError:
            refused += 1
        else:
            assert torch.equal(data.train.x, original.train.x)
            assert torch.equal(data.test.y, original.test.y)
    assert refused > len(bad_arrays.GOOD) // 2


@pytest.mark.slow
@given(st.lists(st.tuples(st.integers(0), st.integers(1, 255)), min_size=1, max_size=8))
@settings(max_examples=5_000, deadline=None)
def test_an_npz_damaged_in_places_is_read_or_refused(folder: Path, damages: list[tuple[int, int]]) -> None:
    content = bad_arrays.GOOD
    for place, mask in damages:
        content = damaged(content, place, mask)
    read_or_refuse(folder / "a.npz", content)
