"""Heart Disease of four hospitals, each a natural client."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Literal

import numpy as np
import torch

from counterpoise.core.rng import numpy_generator
from counterpoise.data.dataset import Dataset, Loader, dataset
from counterpoise.data.root import find_file
from counterpoise.data.sets.assemble import tabular
from counterpoise.data.split import stratified_split
from counterpoise.data.tables.cells import MISSING_WORD, Numbers
from counterpoise.data.tables.delimited import (
    FileColumns,
    Table,
    Words,
    class_codes,
    encode,
    parse_table,
    read_lines,
    stack,
)
from counterpoise.data.tables.encoder import Encoder

HOSPITALS = {
    "Cleveland": "cleveland",
    "Hungary": "hungarian",
    "Switzerland": "switzerland",
    "Long Beach": "va",
}
COLUMNS = "age sex cp trestbps chol fbs restecg thalach exang oldpeak slope ca thal num"
CODES = ("cp", "restecg", "slope", "thal")  # numbers that only name a category
GAP = "missing"
GRADES = ("0", "1", "2", "3", "4")
LAYOUT = FileColumns(COLUMNS.split(), words=(), label="num", labels=GRADES)
CLASSES = {
    "two": ("no disease", "disease"),
    "five": ("no disease", "grade 1", "grade 2", "grade 3", "grade 4"),
}


@dataset("heart_disease", paper="Janosi et al., Heart Disease, UCI 1988; du Terrail et al., FLamby, 2022")
def heart_disease(grades: Literal["two", "five"] = "two") -> Loader:
    """920 patients of four hospitals (303, 294, 123, 200), the natural clients; disease or not, or its grade 0 to 4.

    Gaps in numbers take the training rows' median and an indicator; a gap in a code is a category of its own.
    """

    def load(root: Path | None) -> Dataset:
        paths = [find_file(root, "heart_disease", f"processed.{word}.data") for word in HOSPITALS.values()]
        tables = [_read(path) for path in paths]
        table = stack(tables)
        hospital = np.repeat(np.arange(len(tables)), [len(table.labels) for table in tables])
        grade = class_codes(table.labels, GRADES, "heart_disease")
        y = grade if grades == "five" else np.minimum(grade, 1)
        split = stratified_split(hospital * len(GRADES) + y, 0.2, numpy_generator(0, "heart_disease-test"))
        encoded = encode(table.numbers, table.words, split.train)
        encoded = encoded._replace(encoder=_for_new_rows(encoded.encoder))
        labels = {word: code if grades == "five" else min(code, 1) for code, word in enumerate(GRADES)}
        notes, label = _notes(table.words), LAYOUT.label
        loaded = tabular(
            "heart_disease", encoded, y, CLASSES[grades], split, paths, *notes, label=label, labels=labels
        )
        return replace(loaded, clients=torch.tensor(hospital[split.train]), client_names=tuple(HOSPITALS))

    return load


def _read(path: Path) -> Table:
    rows = [line.replace("?", "nan") for line in read_lines(path)]
    table = parse_table(path, rows, LAYOUT)
    numbers = {name: column for name, column in table.numbers.items() if name not in CODES}
    return Table(numbers, {name: _code_names(table.numbers[name]) for name in CODES}, table.labels)


def _for_new_rows(encoder: Encoder | None) -> Encoder | None:
    """The encoder by which other tables are read, in which a gap has the name that it has there."""
    if encoder is None:
        return None
    words = {
        name: tuple(MISSING_WORD if kind == GAP else kind for kind in kinds)
        for name, kinds in encoder.words.items()
    }
    return replace(encoder, words=words)


def _code_names(codes: Numbers) -> Words:
    return np.array([GAP if np.isnan(code) else f"{code:g}" for code in codes])


def _notes(codes: dict[str, Words]) -> tuple[str, ...]:
    gaps = ", ".join(f"{name} {np.sum(values == GAP)}" for name, values in codes.items())
    return (
        "no official split: 80/20, stratified by hospital and class, the same in every run",
        f"missing codes are a category of their own: {gaps}",
    )
