"""Small files and short configs that would take much: refused in seconds of a processor and 300 MB, measured in a process of its own.

Those that a large machine could hold are opened as on one with 256 MiB free.
"""

from __future__ import annotations

import gzip
import json
import random
import struct
import subprocess
import sys
import zipfile
import zlib
from collections.abc import Callable
from pathlib import Path
from typing import NamedTuple

import bad_arrays
import bad_folders
import numpy as np
import pytest

MEBIBYTE = 1 << 20
MAX_SECONDS = 2.0
MAX_EXTRA_KIB = 300_000
TEN_GIGABYTES = 10 * 1024  # blocks of one mebibyte
FREE = 256 * MEBIBYTE

MEASURE = """
import json, pathlib, re, sys, time
import pyarrow.parquet
from counterpoise.system import capacity
from counterpoise.data.own import open_data
from counterpoise.data.dataset import DATASETS
from counterpoise.errors import CounterpoiseError
from counterpoise.run.assemble import assemble
from counterpoise.run.config.experiment import load_experiment

def kib(name):
    # not ru_maxrss, which a process inherits from the one that started it
    return int(re.search(name + r":\\s+(\\d+)", pathlib.Path("/proc/self/status").read_text())[1])

def look(path):
    if path.suffix == ".toml":
        assemble(load_experiment(path)).rehearse()
    elif (path / "mnist").is_dir():
        DATASETS.build("mnist")(path)
    else:
        open_data(path, label="label")

DATASETS.build("digits")(None)  # what configs without data train on; scikit-learn is imported for it
capacity.MEMINFO = pathlib.Path(sys.argv[1])
before = kib("VmRSS")
for path in map(pathlib.Path, sys.argv[2:]):
    pathlib.Path("/proc/self/clear_refs").write_text("5")  # the peak counts from here
    start, code = time.process_time(), 0
    try:
        look(path)
        message = ""
    except CounterpoiseError as error:
        message, code = str(error), error.exit_code
    seconds = time.process_time() - start
    print(json.dumps({"message": message, "code": code, "seconds": seconds, "kib": kib("VmHWM") - before}))
"""


def header_of(shape: tuple[int, ...], kind: str) -> bytes:
    return bad_arrays.npy(f"{{'descr': '{kind}', 'fortran_order': False, 'shape': {shape}}}")


def zeros_npz(path: Path, blocks: int, member: str = "x", flat: bool = False, kind: str = "|u1") -> None:
    """An npz of `blocks` MiB of zeros: one deflated block, repeated, since a full flush makes blocks independent."""
    deflate = zlib.compressobj(9, zlib.DEFLATED, -zlib.MAX_WBITS)
    header = header_of((blocks * MEBIBYTE,) if flat else (blocks, MEBIBYTE), kind)
    start = deflate.compress(header) + deflate.flush(zlib.Z_FULL_FLUSH)
    block = deflate.compress(bytes(MEBIBYTE)) + deflate.flush(zlib.Z_FULL_FLUSH)
    packed = start + block * blocks + deflate.flush()
    size, name = len(header) + blocks * MEBIBYTE, f"{member}.npy".encode()
    wide = struct.pack("<HHQQ", 1, 16, size, len(packed))  # the zip64 field of sizes
    common = struct.pack(
        "<HHHHHIIIHH", 45, 0, zipfile.ZIP_DEFLATED, 0, 33, 0, 0xFFFFFFFF, 0xFFFFFFFF, len(name), len(wide)
    )
    local = b"PK\3\4" + common + name + wide
    central = b"PK\1\2" + struct.pack("<H", 45) + common + struct.pack("<HHHII", 0, 0, 0, 0, 0) + name + wide
    end = b"PK\5\6" + struct.pack("<HHHHIIH", 0, 0, 1, 1, len(central), len(local) + len(packed), 0)
    path.write_bytes(local + packed + central + end)


def add(path: Path, **members: bytes) -> None:
    with zipfile.ZipFile(path, "a") as archive:
        for name, content in members.items():
            archive.writestr(f"{name}.npy", content)


def unfit_labels(path: Path) -> None:
    """Two gigabytes of inputs with a label too few."""
    zeros_npz(path, 2048)
    add(path, y=header_of((2047,), "|u1") + bytes(2047))


def billion_classes(path: Path) -> None:
    zeros_npz(path, 954, "classes", flat=True, kind="|S1")
    add(path, x=header_of((4, 2), "<f8") + bytes(64), y=header_of((4,), "<i8") + bytes(32))


def long_pack(path: Path) -> None:
    """A gigabyte of header, mostly a hole in the file."""
    with path.open("wb") as stream:
        stream.write((1 << 30).to_bytes(8, "little"))
        stream.truncate((1 << 30) + 16)


def pack_of(classes: int, images: int, side: int) -> Callable[[Path], None]:
    """A pack whose checksum is right, and that says it holds so many classes and images."""

    def write(path: Path) -> None:
        import torch

        from counterpoise.data.dataset import Assignment, Dataset, Samples
        from counterpoise.data.own.pack import DIGEST, _digest, _save, _tensors, _words

        train, test = (
            Samples(torch.zeros(images, dtype=torch.uint8), torch.arange(images) % 2) for _ in "ab"
        )
        data = Dataset("bomb", train, test, tuple(str(k) for k in range(classes)))
        tensors = _tensors(data, Assignment([np.arange(images)]))
        words = _words(data, {}, {f"{half}.x": (images, 1, side, side) for half in ("train", "test")})
        tensors[DIGEST] = torch.tensor(list(_digest(tensors, words)), dtype=torch.uint8)
        _save(path, tensors, words)

    return write


def words_csv(path: Path) -> None:
    """A thousand columns of a thousand different words."""
    draw = random.Random(0)
    lines = [",".join([f"c{place}" for place in range(1000)] + ["label"])]
    for row in range(1000):
        words = [f"w{draw.randrange(10**6)}_{row}" for _ in range(1000)]
        lines.append(",".join([*words, "ab"[row % 2]]))
    path.write_text("\n".join(lines))


def zeros_gz(path: Path) -> None:
    """Ten gigabytes of zeros, as gzip takes them in."""
    path.write_bytes(gzip.compress(bytes(10 * MEBIBYTE)) * 1024)


def equal_rows_gz(path: Path) -> None:
    """Two gigabytes of one row over and over; its cells are shared, and the rows are not."""
    rows = ("x" * 1000 + ",a\n").encode() * 2000
    path.write_bytes(gzip.compress(b"a,label\n") + gzip.compress(rows) * 1024)


def equal_cells(path: Path) -> None:
    """Forty million cells, each column one word or number over and over."""
    import pyarrow
    from pyarrow import parquet

    rows = 4_000_000
    numbers = {f"n{place}": np.zeros(rows, np.int8) for place in range(8)}
    words = pyarrow.DictionaryArray.from_arrays(np.zeros(rows, np.int8), ["w" * 100])
    parquet.write_table(pyarrow.table({"label": words, "a": words, **numbers}), path)


def black_images(folder: Path) -> None:
    """MNIST with 1.25 GB of images in a few megabytes."""
    images, root = 1_600_000, folder / "mnist"
    root.mkdir(parents=True)
    deflate = zlib.compressobj(9, zlib.DEFLATED, -zlib.MAX_WBITS)
    head = bytes([0, 0, 8, 3]) + struct.pack(">3I", images, 28, 28)
    start = deflate.compress(head) + deflate.flush(zlib.Z_FULL_FLUSH)
    block = deflate.compress(bytes(MEBIBYTE)) + deflate.flush(zlib.Z_FULL_FLUSH)
    packed = start + block * (images * 28 * 28 // MEBIBYTE + 1)
    labels = gzip.compress(bytes([0, 0, 8, 1]) + struct.pack(">I", images) + bytes(images))
    for part in ("train", "t10k"):
        (root / f"{part}-images-idx3-ubyte.gz").write_bytes(gzip.compress(b"")[:10] + packed)
        (root / f"{part}-labels-idx1-ubyte.gz").write_bytes(labels)


def config(text: str) -> Callable[[Path], None]:
    return lambda path: _write_text(path, f'method = "fedavg"\nrounds = 1\n{text}\n')


def _write_text(path: Path, text: str) -> None:
    path.write_text(text)


ENDLESS = b"\x93NUMPY\2\0" + b"\xff\xff\xff\x7f" + bytes(200 * MEBIBYTE)


class Bomb(NamedTuple):
    file: str
    write: Callable[[Path], object]
    reason: str
    code: int = 3
    seconds: float = MAX_SECONDS


BOMBS = {
    "npz: 10 GB of zeros": Bomb(
        "zeros.npz",
        lambda path: zeros_npz(path, TEN_GIGABYTES),
        "zeros.npz: unpacks to 10,737,418,240 bytes",
    ),
    "npz: 2^40 elements": Bomb(
        "elements.npz",
        lambda path: path.write_bytes(bad_arrays.described("(1099511627776,)")),
        "elements.npz: x says 8,796,093,022,208 bytes of numbers, the archive 64",
    ),
    "npz: 4 GB of header": Bomb(
        "header.npz",
        lambda path: path.write_bytes(bad_arrays.zipped({"x.npy": ENDLESS, "y.npy": ENDLESS[:100]})),
        "header.npz: damaged or not an npz file",
    ),
    "npz: 2 GB of inputs, a label too few": Bomb(
        "labels.npz", unfit_labels, "labels.npz: y has shape (2047,); needs (2048,)"
    ),
    "npz: 10^9 classes": Bomb(
        "classes.npz", billion_classes, "holds 1,000,341,504 classes; needs 2 to 10,000"
    ),
    "csv: a million columns": Bomb(
        "columns.csv",
        lambda path: path.write_text(",".join(f"c{place}" for place in range(1_000_000)) + "\n"),
        "columns.csv: row 1: the header has 1,000,000 columns",
    ),
    "csv: one endless line": Bomb(
        "line.csv",
        lambda path: path.write_bytes(b"a" * (100 * MEBIBYTE)),
        "line.csv: line 1 has 16,777,216 characters or more",
    ),
    "csv.gz: 10 GB of zeros": Bomb(
        "zeros.csv.gz", zeros_gz, "zeros.csv.gz: line 1 has 16,777,216 characters or more"
    ),
    "csv.gz: 2 GB of rows": Bomb("rows.csv.gz", equal_rows_gz, "the table up to here needs", seconds=60),
    "csv: 1,000 x 1,000 different words": Bomb(
        "words.csv",
        words_csv,
        "words.csv: 1,000 rows of 801,000 features needs 6.5 GB of memory; at most 268.4 MB",
        seconds=20,
    ),
    "parquet: 40 million equal cells": Bomb(
        "cells.parquet", equal_cells, "cells.parquet: a table of 40,000,000 cells needs"
    ),
    "pack: 1 GB of header": Bomb(
        "header.safetensors", long_pack, "header.safetensors: says its header has 1,073,741,824 bytes"
    ),
    "pack: 2^63 bytes of header": Bomb(
        "claims.safetensors",
        lambda path: path.write_bytes((1 << 63).to_bytes(8, "little") + b"{}"),
        "claims.safetensors: says its header has 9,223,372,036,854,775,808 bytes",
    ),
    "pack: a million classes": Bomb(
        "classes.safetensors",
        pack_of(1_000_000, 2, 1),
        "holds 1,000,000 classes; at most 10,000",
        3,
        10,
    ),
    "pack: 800 MB of pixels": Bomb(
        "pixels.safetensors", pack_of(2, 400, 1024), "pixels.safetensors: its pixels needs 1.7 GB of memory"
    ),
    "idx: 1.25 GB of images": Bomb(
        "idx", black_images, "says it holds 1,254,400,016 bytes; at most 1,073,741,824"
    ),
    "images: 2.5 billion pixels": Bomb(
        "images",
        bad_folders.with_file(bad_folders.png_of_size(50_000, 50_000)),
        "odd.png: cannot be read as an image",
    ),
    "config: 10^8 clients": Bomb(
        "clients.toml",
        config("[partition]\nclients = 100000000\nminimum = 0"),
        "partition.clients must be a whole number in [0, 10000000], not 100000000",
        2,
    ),
    "config: 10^6 clients": Bomb(
        "many.toml",
        config("[partition]\nclients = 1000000\nminimum = 0"),
        "clients = 1,000,000 needs 1.4 GB of memory",
        2,
    ),
    "config: 10,000 epochs of 2^20 samples a step": Bomb(
        "plan.toml",
        config("[local]\nbatch_size = 1048576\nepochs = 10000"),
        "local.batch_size = 1,048,576 and local.epochs = 10,000: a client of",
        2,
    ),
    "config: a layer of 2^31": Bomb(
        "model.toml",
        config("[model]\nhidden = [2147483648]"),
        "model mlp: in training it needs 2,199.0 GB of memory",
        2,
    ),
    "config: 1,400 replies of 1.8 MB": Bomb(
        "cohort.toml",
        config("[partition]\nname = 'iid'\nclients = 1400\n[model]\nhidden = [600, 600, 100]"),
        "cohort.size: a round of 1,400 trainings, 1.8 MB each, needs 2.6 GB of memory",
        2,
    ),
}


@pytest.fixture(scope="module")
def measured(tmp_path_factory: pytest.TempPathFactory) -> dict[str, dict[str, float | str]]:
    pytest.importorskip("pyarrow")
    if not Path("/proc/self/clear_refs").exists():
        pytest.skip("peaks of memory are measured on Linux")
    folder = tmp_path_factory.mktemp("bombs")
    paths = [folder / bomb.file for bomb in BOMBS.values()]
    for bomb, path in zip(BOMBS.values(), paths, strict=True):
        bomb.write(path)
    small = folder / "meminfo"
    small.write_text(f"MemAvailable: {FREE >> 10} kB\n")
    command = [sys.executable, "-c", MEASURE, str(small), *map(str, paths)]
    done = subprocess.run(command, capture_output=True, text=True, timeout=300)
    assert done.returncode == 0, done.stderr
    return dict(zip(BOMBS, map(json.loads, done.stdout.splitlines()), strict=True))


@pytest.mark.parametrize("name", BOMBS)
def test_a_bomb_is_refused_quickly_and_in_little_memory(
    name: str, measured: dict[str, dict[str, float | str]]
) -> None:
    bomb, result = BOMBS[name], measured[name]
    assert bomb.reason in str(result["message"])
    assert "\n" not in str(result["message"])
    assert result["code"] == bomb.code
    assert float(result["seconds"]) < bomb.seconds
    assert float(result["kib"]) < MAX_EXTRA_KIB


def test_the_zeros_are_real(tmp_path: Path) -> None:
    zeros_npz(tmp_path / "z.npz", 3)
    with zipfile.ZipFile(tmp_path / "z.npz") as archive, archive.open("x.npy") as stream:
        content = stream.read(2 * MEBIBYTE)
        assert len(content) == 2 * MEBIBYTE
        assert not any(content[200:])
    assert (tmp_path / "z.npz").stat().st_size < 10_000
