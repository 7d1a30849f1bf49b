"""Adult (Census Income) from adult.data and adult.test."""

from __future__ import annotations

from pathlib import Path
from typing import Literal

import numpy as np

from counterpoise.core.rng import numpy_generator
from counterpoise.data.dataset import Dataset, Loader, dataset
from counterpoise.data.root import find_file
from counterpoise.data.sets.assemble import tabular
from counterpoise.data.split import split_at, stratified_split
from counterpoise.data.tables.delimited import (
    FileColumns,
    Table,
    class_codes,
    encode,
    parse_table,
    read_lines,
    stack,
)

COLUMNS = (
    "age workclass fnlwgt education education-num marital-status occupation relationship race sex "
    "capital-gain capital-loss hours-per-week native-country income"
)
WORDS = "workclass education marital-status occupation relationship race sex native-country"
CLASSES = ("<=50K", ">50K")
LAYOUT = FileColumns(COLUMNS.split(), WORDS.split(), label="income", labels=CLASSES)
MISSING = "?"
SPLIT_NOTES = {
    "stratified": "both files pooled, then 80/20, stratified by class, the same in every run",
    "official": "official split: adult.data trains, adult.test tests",
}


@dataset("adult", paper="Becker and Kohavi, Adult, UCI 1996")
def adult(split: Literal["stratified", "official"] = "stratified") -> Loader:
    """45,222 complete rows of 104 inputs (6 numbers, 98 one-hot) in 2 classes, 3.03 to 1.

    "stratified" pools both files and holds out a fixed fifth of each class; "official" tests on adult.test.
    """

    def load(root: Path | None) -> Dataset:
        paths = [find_file(root, "adult", file) for file in ("adult.data", "adult.test")]
        tables = [_read(path) for path in paths]
        train, test = (_complete(table) for table in tables)
        table = stack([train, test])
        y = class_codes(table.labels, CLASSES, "adult")
        pooled = stratified_split(y, 0.2, numpy_generator(0, "adult-test"))
        rows = pooled if split == "stratified" else split_at(len(train.labels), len(y))
        encoded = encode(table.numbers, table.words, fit=rows.train)
        incomplete = sum(len(table.labels) for table in tables) - len(y)
        dropped = f"{incomplete:,} rows with missing values dropped, {len(y):,} kept"
        notes = dropped, SPLIT_NOTES[split]
        return tabular("adult", encoded, y, CLASSES, rows, paths, *notes, label=LAYOUT.label)

    return load


def _read(path: Path) -> Table:
    """adult.test begins with a comment, and its labels end in a full stop."""
    rows = [line.rstrip(" .") for line in read_lines(path) if not line.startswith("|")]
    return parse_table(path, rows, LAYOUT)


def _complete(table: Table) -> Table:
    return table.take(np.all([column != MISSING for column in table.words.values()], axis=0))
