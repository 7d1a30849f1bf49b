"""Finished runs on a table, on arrays and on images, each with the file that holds its test samples."""

from __future__ import annotations

import csv
from collections.abc import Sequence
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
from PIL import Image
from sklearn.datasets import load_digits, load_wine

from counterpoise.data.tables.table import fitted_table
from counterpoise.data.tables.uses import ColumnUses
from counterpoise.run.config.experiment import make_experiment
from counterpoise.run.runner import start

SMALL: dict[str, Any] = {
    "rounds": 3,
    "partition": {"clients": 3, "alpha": 1.0},
    "model": {"name": "mlp", "hidden": [8]},
    "local": {"batch_size": 16},
}


class Used(NamedTuple):
    """A run, the data it was made from, and a file with its test samples."""

    run: Path
    data: Path
    test: Path


def make_run(folder: Path, data: dict[str, Any], **tables: Any) -> Path:
    """A small finished run in a folder of its own."""
    start(make_experiment({**SMALL, "data": data, **tables}), folder)
    return folder


def write_rows(path: Path, names: Sequence[str], rows: Sequence[Sequence[object]]) -> Path:
    with path.open("w", newline="") as stream:
        csv.writer(stream).writerows([names, *rows])
    return path


def table_run(folder: Path) -> Used:
    """Wine, with a column of words that has gaps and a word that is in test rows alone, and a number with gaps."""
    wine = load_wine()
    rng = np.random.default_rng(0)
    names = ["colour", *wine.feature_names, "cultivar"]
    rows = [
        [("red", "white", "", "rose")[rng.integers(4)], *map(repr, x.tolist()), wine.target_names[y]]
        for x, y in zip(wine.data, wine.target, strict=True)
    ]
    for row in rows[::7]:
        row[3] = "?"
    path = write_rows(folder / "wine.csv", names, rows)
    split = fitted_table(path, ColumnUses("cultivar")).split
    for row in split.test[:2].tolist():
        rows[row][0] = "orange"
    write_rows(path, names, rows)
    test = write_rows(folder / "test.csv", names, [rows[row] for row in split.test.tolist()])
    run = make_run(folder / "table", {"name": "table", "path": str(path), "label": "cultivar"})
    return Used(run, path, test)


def array_run(folder: Path) -> Used:
    """Digits as an npz of pixels, with its own test half."""
    x, y = load_digits().images.astype(np.uint8), load_digits().target
    halves = {"x_train": x[:500], "y_train": y[:500], "x_test": x[500:700], "y_test": y[500:700]}
    path, test = folder / "digits.npz", folder / "test.npz"
    np.savez(path, **halves)
    np.savez(test, x=x[500:700], y=y[500:700])
    return Used(make_run(folder / "arrays", {"name": "arrays", "path": str(path)}), path, test)


def image_run(folder: Path) -> Used:
    """Digits as PNG files of odd sizes, resized to 8 x 8, in folders whose names are not in the order of numbers."""
    x, y = load_digits().images.astype(np.uint8) * 15, load_digits().target
    names = {0: "10", 1: "2", 2: "nought"}
    for place in np.flatnonzero(y < 3)[:150].tolist():
        half = "test" if place % 3 == 0 else "train"
        path = folder / "pictures" / half / names[int(y[place])] / f"{place}.png"
        path.parent.mkdir(parents=True, exist_ok=True)
        side = 8 + place % 2
        Image.fromarray(x[place]).resize((side, side)).save(path)
    data = {"name": "images", "path": str(folder / "pictures"), "size": 8}
    run = make_run(folder / "images", data)
    return Used(run, folder / "pictures", folder / "pictures" / "test")
