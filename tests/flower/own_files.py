"""Files of clients' own, of each kind: the server's, and two clients' below a folder whose name must not leave them."""

from __future__ import annotations

import csv
import random
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
from PIL import Image

from counterpoise.data.dataset import Assignment, Dataset
from counterpoise.data.own import read_npz, write_pack
from counterpoise.run.config.experiment import Experiment, make_experiment

SECRET = "canary-7f3a"
CENTRES = {"low": 0.0, "mid": 2.0, "high": 4.0}
CLASSES = ("high", "low", "mid")
ROWS = {"a": ("low", "low", "mid"), "b": ("high", "low")}  # classes of a client's rows, in turn
COUNT = 60  # rows of a client

Write = Callable[[Path, Sequence[str], int], Path]  # folder, class of each row, seed -> the file


def write_table(folder: Path, labels: Sequence[str], seed: int) -> Path:
    """Numbers with gaps, and a word that only this file has."""
    rng, path = random.Random(seed), folder / "table.csv"
    with path.open("w", newline="") as stream:
        writer = csv.writer(stream)
        writer.writerow(["age", "dose", "city", "risk"])
        for number, label in enumerate(labels):
            centre = CENTRES[label]
            dose = "" if rng.random() < 0.1 else f"{rng.gauss(2 * centre, 1):.3f}"
            city = rng.choice(["rome", "oslo"]) if number else folder.name
            writer.writerow([f"{rng.gauss(centre, 1):.3f}", dose, city, label])
    return path


def write_arrays(folder: Path, labels: Sequence[str], seed: int) -> Path:
    rng, path = np.random.default_rng(seed), folder / "arrays.npz"
    classes, y = np.unique(labels, return_inverse=True)
    centres = np.array([CENTRES[label] for label in labels])
    x = (rng.normal(size=(len(labels), 5)) + centres[:, None]).astype(np.float32)
    arrays = {"x": x, "y": y, "classes": classes, folder.name: y}
    np.savez(path, allow_pickle=False, **arrays)
    return path


def write_images(folder: Path, labels: Sequence[str], seed: int) -> Path:
    """The larger the class, the brighter; sizes differ from client to client."""
    rng, path, side = np.random.default_rng(seed), folder / "images", 6 + seed
    for number, label in enumerate(labels):
        (path / label).mkdir(parents=True, exist_ok=True)
        pixels = rng.integers(0, 60, (side, side), dtype=np.uint8) + int(45 * CENTRES[label])
        Image.fromarray(pixels.astype(np.uint8)).save(path / label / f"{folder.name}-{number}.png")
    return path


def write_packed(folder: Path, labels: Sequence[str], seed: int) -> Path:
    """One client with a fifth of its rows held out."""
    data: Dataset = read_npz(write_arrays(folder, labels, seed))
    rows, path = np.arange(len(data.train.y)), folder / "packed.safetensors"
    write_pack(data, Assignment([rows[5:]], [rows[:5]]), path, {"note": folder.name})
    return path


class Kind(NamedTuple):
    """How a kind of file is written, and what the server's config calls it."""

    write: Write
    name: str
    served_by: Write  # the server's own file
    arguments: dict[str, Any]


KINDS = {
    "table": Kind(write_table, "table", write_table, {"label": "risk"}),
    "arrays": Kind(write_arrays, "arrays", write_arrays, {}),
    "images": Kind(write_images, "images", write_images, {}),
    "pack": Kind(write_packed, "arrays", write_arrays, {}),
}


def server_config(path: Path, kind: Kind, clients: Sequence[str], **tables: Any) -> Experiment:
    """A run whose clients bring their own files; the server's is written here."""
    folder = path / "server"
    folder.mkdir()
    file = kind.served_by(folder, CLASSES * 20, 0)
    settings: dict[str, Any] = {
        "rounds": 2,
        "method": "scaffold",
        "data": {"name": kind.name, "path": str(file), **kind.arguments},
        "local": {"batch_size": 16},
        "engine": {"device": "cpu", "processes": 1},
        "evaluate": {"clients": True},
        "flower": {"clients": list(clients), "wait": 0.3},
    }
    return make_experiment({**settings, **tables})


def client_files(path: Path, kind: Kind) -> dict[str, Path | None]:
    """A file a client, in a folder of its own whose name is secret."""
    files: dict[str, Path | None] = {}
    for seed, (name, labels) in enumerate(ROWS.items(), 1):
        folder = path / name / SECRET
        folder.mkdir(parents=True)
        turns = -(-COUNT // len(labels))
        files[name] = kind.write(folder, (labels * turns)[:COUNT], seed)
    return files
