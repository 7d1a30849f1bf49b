"""Columns of a known layout as model inputs, by hand."""

from __future__ import annotations

import subprocess
import sys

import numpy as np
import pytest

from counterpoise.data.tables.delimited import class_codes, classes_by_frequency, encode
from counterpoise.data.tables.fit import fit_numbers
from counterpoise.errors import DataError

EVERYTHING = np.arange(4)


def test_standardising_uses_the_fit_rows_alone() -> None:
    numbers = {"a": np.array([1.0, 3.0, 100.0]), "b": np.array([7.0, 7.0, 9.0])}
    scaled = encode(numbers, {}, np.array([0, 1])).x
    assert scaled.tolist() == [[-1, 0], [1, 0], [98, 2]]  # mean 2, deviation 1; a constant is only centred


def test_gaps_take_the_median_of_the_known_fit_values() -> None:
    nan = np.nan
    numbers = {"a": np.array([1.0, 4.0, nan, 2.0]), "b": np.array([nan, nan, 5.0, nan])}
    centres = {"a": 0.0, "b": 0.0}
    assert fit_numbers(numbers, centres, np.array([0, 1, 2]))["b"].gap == 5
    fitted = fit_numbers(numbers, centres, np.array([0, 1, 3]))
    assert fitted["a"].gap == 2
    assert fitted["b"].gap == 0  # no known value to take a median of
    assert fitted["b"].standardise(numbers["b"]).tolist() == [0, 0, 5, 0]


def test_one_hot_follows_the_alphabet() -> None:
    encoded = encode({}, {"w": np.array(["b", "a", "b"])}, EVERYTHING[:3])
    assert encoded.names == ("w=a", "w=b")
    assert encoded.x.tolist() == [[0, 1], [1, 0], [0, 1]]


def test_inputs_are_numbers_then_indicators_then_one_hot_words_with_their_names() -> None:
    numbers = {"age": np.array([1.0, 3.0, 1.0, 3.0]), "dose": np.array([0.0, np.nan, 0.0, 3.0])}
    encoded = encode(numbers, {"site": np.array(["x", "y", "x", "x"])}, EVERYTHING)
    assert encoded.names == ("age", "dose", "dose missing", "site=x", "site=y")
    assert encoded.x[:, 0].tolist() == [-1, 1, -1, 1]
    assert encoded.x[:, 2:].tolist() == [[0, 1, 0], [1, 0, 1], [0, 1, 0], [0, 1, 0]]
    assert encoded.x.dtype == np.float32
    assert encoded.notes == (
        "missing numbers take the median of the training rows and an indicator column: dose 1",
    )


def test_tables_of_words_alone_and_of_numbers_alone_are_encoded() -> None:
    assert encode({}, {"w": np.array(["a", "b"])}, np.arange(2)).x.tolist() == [[1, 0], [0, 1]]
    assert encode({"n": np.array([0.0, 2.0])}, {}, np.arange(2)).x.tolist() == [[-1], [1]]


def test_classes_are_ordered_by_frequency_then_name() -> None:
    labels = np.array(["b", "c", "a", "c"])
    classes = classes_by_frequency(labels)
    assert classes == ("c", "a", "b")
    assert class_codes(labels, classes, "file").tolist() == [2, 0, 1, 0]
    with pytest.raises(DataError, match="file: label 'b' in data row 1; must be one of a, c"):
        class_codes(labels, ("a", "c"), "file")


def test_registering_the_sets_imports_nothing_heavy() -> None:
    code = "import counterpoise.data.dataset, counterpoise.data.sets, sys; print([m for m in ('sklearn', 'scipy.io', 'PIL') if m in sys.modules])"
    answer = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert answer.stdout.strip() == "[]"
