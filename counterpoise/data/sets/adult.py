"""Adult (Census Income) from adult.data and adult.test."""

from __future__ import annotations

from pathlib import Path
from typing import Literal

import numpy as np

from counterpoise.core.rng import numpy_generator
from counterpoise.data.columns import TrainTest, class_codes, encode, stratified_split
from counterpoise.data.dataset import Dataset, Loader, dataset
from counterpoise.data.delimited import Table, parse_table, read_lines
from counterpoise.data.root import find_file
from counterpoise.data.sets.assemble import tabular

COLUMNS = (
    "age workclass fnlwgt education education-num marital-status occupation relationship race sex "
    "capital-gain capital-loss hours-per-week native-country income"
).split()
NUMBERS = ("age", "fnlwgt", "education-num", "capital-gain", "capital-loss", "hours-per-week")
WORDS = tuple(name for name in COLUMNS if name not in NUMBERS)  # the income comes last
CLASSES = ("<=50K", ">50K")
MISSING = "?"


@dataset("adult", paper="Becker and Kohavi, Adult, UCI 1996")
def adult(split: Literal["stratified", "official"] = "stratified") -> Loader:
    """45,222 complete rows of 104 inputs (6 numbers, 98 one-hot) in 2 classes, 3.03 to 1.

    "stratified" pools both files and holds out a fixed fifth of each class; "official" tests on adult.test.
    """

    def load(root: Path | None) -> Dataset:
        paths = [find_file(root, "adult", file) for file in ("adult.data", "adult.test")]
        tables = [_read(path) for path in paths]
        numbers = np.concatenate([table.numbers for table in tables])
        words = np.concatenate([table.words for table in tables])
        complete = ~(words == MISSING).any(axis=1)
        y = class_codes(np.char.rstrip(words[:, -1], "."), CLASSES, paths[0].parent)[complete]
        in_test_file = np.repeat([False, True], [len(table.words) for table in tables])[complete]
        rows = _official(in_test_file) if split == "official" else _stratified(y)
        encoded = encode(
            dict(zip(NUMBERS, numbers[complete].T, strict=True)),
            dict(zip(WORDS[:-1], words[complete, :-1].T, strict=True)),
            fit=rows.train,
        )
        dropped = f"{np.sum(~complete):,} rows with missing values dropped, {np.sum(complete):,} kept"
        return tabular("adult", encoded, y, CLASSES, rows, paths, dropped, SPLIT_NOTES[split])

    return load


SPLIT_NOTES = {
    "stratified": "both files pooled, then 80/20, stratified by class, the same in every run",
    "official": "official split: adult.data trains, adult.test tests",
}


def _stratified(y: np.ndarray) -> TrainTest:
    return stratified_split(y, 0.2, numpy_generator(0, "adult-test"))


def _official(in_test_file: np.ndarray) -> TrainTest:
    return TrainTest(np.flatnonzero(~in_test_file), np.flatnonzero(in_test_file))


def _read(path: Path) -> Table:
    rows = [line for line in read_lines(path) if not line.startswith("|")]  # adult.test opens with a comment
    numbers, words = ([COLUMNS.index(name) for name in names] for names in (NUMBERS, WORDS))
    return parse_table(path, rows, len(COLUMNS), numbers, words)
