"""Small files that would unpack to much: refused in two seconds and 300 MB, measured in a process of its own."""

from __future__ import annotations

import json
import struct
import subprocess
import sys
import zipfile
import zlib
from pathlib import Path

import bad_arrays
import bad_folders
import pytest

MEBIBYTE = 1 << 20
MAX_SECONDS = 2.0
MAX_EXTRA_KIB = 300_000
TEN_GIGABYTES = 10 * 1024  # blocks of one mebibyte

MEASURE = """
import json, resource, sys, time
from counterpoise.data.own import open_data
from counterpoise.errors import DataError

def peak():
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss

before = peak()
for path in sys.argv[1:]:
    start = time.perf_counter()
    try:
        open_data(path, label="label")
        message = ""
    except DataError as error:
        message = str(error)
    print(json.dumps({"message": message, "seconds": time.perf_counter() - start, "kib": peak() - before}))
"""


def zeros_npz(path: Path, blocks: int) -> None:
    """An npz whose x is `blocks` MiB of zeros: one deflated block, repeated, since a full flush makes blocks independent."""
    deflate = zlib.compressobj(9, zlib.DEFLATED, -zlib.MAX_WBITS)
    header = bad_arrays.npy(f"{{'descr': '|u1', 'fortran_order': False, 'shape': ({blocks}, {MEBIBYTE})}}")
    start = deflate.compress(header) + deflate.flush(zlib.Z_FULL_FLUSH)
    block = deflate.compress(bytes(MEBIBYTE)) + deflate.flush(zlib.Z_FULL_FLUSH)
    packed = start + block * blocks + deflate.flush()
    size, name = len(header) + blocks * MEBIBYTE, b"x.npy"
    wide = struct.pack("<HHQQ", 1, 16, size, len(packed))  # the zip64 field of sizes
    common = struct.pack(
        "<HHHHHIIIHH", 45, 0, zipfile.ZIP_DEFLATED, 0, 33, 0, 0xFFFFFFFF, 0xFFFFFFFF, len(name), len(wide)
    )
    local = b"PK\3\4" + common + name + wide
    central = b"PK\1\2" + struct.pack("<H", 45) + common + struct.pack("<HHHII", 0, 0, 0, 0, 0) + name + wide
    end = b"PK\5\6" + struct.pack("<HHHHIIH", 0, 0, 1, 1, len(central), len(local) + len(packed), 0)
    path.write_bytes(local + packed + central + end)


def long_pack(path: Path) -> None:
    """A gigabyte of header, mostly a hole in the file."""
    with path.open("wb") as stream:
        stream.write((1 << 30).to_bytes(8, "little"))
        stream.truncate((1 << 30) + 16)


def lay_bombs(folder: Path) -> dict[str, Path]:
    bombs = {
        "10 GB of zeros": folder / "zeros.npz",
        "2^40 elements": folder / "elements.npz",
        "4 GB of header": folder / "header.npz",
        "a million columns": folder / "columns.csv",
        "one endless line": folder / "line.csv",
        "1 GB of pack header": folder / "header.safetensors",
        "2^63 bytes of pack header": folder / "claims.safetensors",
        "2.5 billion pixels": folder / "images",
    }
    zeros_npz(bombs["10 GB of zeros"], TEN_GIGABYTES)
    bombs["2^40 elements"].write_bytes(bad_arrays.described("(1099511627776,)"))
    endless = b"\x93NUMPY\2\0" + b"\xff\xff\xff\x7f" + bytes(200 * MEBIBYTE)
    bombs["4 GB of header"].write_bytes(bad_arrays.zipped({"x.npy": endless, "y.npy": endless[:100]}))
    bombs["a million columns"].write_text(",".join(f"c{place}" for place in range(1_000_000)) + "\n")
    bombs["one endless line"].write_bytes(b"a" * (100 * MEBIBYTE))
    long_pack(bombs["1 GB of pack header"])
    bombs["2^63 bytes of pack header"].write_bytes((1 << 63).to_bytes(8, "little") + b"{}")
    bad_folders.with_file(bad_folders.png_of_size(50_000, 50_000))(bombs["2.5 billion pixels"])
    return bombs


@pytest.fixture(scope="module")
def measured(tmp_path_factory: pytest.TempPathFactory) -> dict[str, dict[str, float | str]]:
    bombs = lay_bombs(tmp_path_factory.mktemp("bombs"))
    command = [sys.executable, "-c", MEASURE, *map(str, bombs.values())]
    output = subprocess.run(command, capture_output=True, text=True, check=True, timeout=60).stdout
    return dict(zip(bombs, map(json.loads, output.splitlines()), strict=True))


REASONS = {
    "10 GB of zeros": "zeros.npz: unpacks to 10,737,418,240 bytes",
    "2^40 elements": "elements.npz: x says 8,796,093,022,208 bytes of numbers, the archive 64",
    "4 GB of header": "header.npz: damaged or no npz file",
    "a million columns": "columns.csv: row 1: the header has 1,000,000 columns",
    "one endless line": "line.csv: line 1 has 16,777,216 characters or more",
    "1 GB of pack header": "header.safetensors: says its header has 1,073,741,824 bytes",
    "2^63 bytes of pack header": "claims.safetensors: says its header has 9,223,372,036,854,775,808 bytes",
    "2.5 billion pixels": "odd.png: cannot be read as an image",
}


@pytest.mark.parametrize("bomb", REASONS)
def test_a_bomb_is_refused_quickly_and_in_little_memory(
    bomb: str, measured: dict[str, dict[str, float | str]]
) -> None:
    result = measured[bomb]
    assert REASONS[bomb] in str(result["message"])
    assert float(result["seconds"]) < MAX_SECONDS
    assert float(result["kib"]) < MAX_EXTRA_KIB


def test_the_zeros_are_real(tmp_path: Path) -> None:
    zeros_npz(tmp_path / "z.npz", 3)
    with zipfile.ZipFile(tmp_path / "z.npz") as archive, archive.open("x.npy") as stream:
        content = stream.read(2 * MEBIBYTE)
        assert len(content) == 2 * MEBIBYTE
        assert not any(content[200:])
    assert (tmp_path / "z.npz").stat().st_size < 10_000
