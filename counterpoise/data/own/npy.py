"""Arrays of an npz file: every header is checked before anything is unpacked, and pickled objects are never read."""

from __future__ import annotations

import io
import math
import zipfile
from collections.abc import Iterable
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
from numpy.lib import format as npy_format
from numpy.typing import NDArray

from counterpoise.data.faults import (
    MAX_BYTES,
    MAX_DIMENSIONS,
    MAX_MEMBERS,
    MAX_NPY_HEADER,
    as_fault,
    fault,
    file_within,
)
from counterpoise.errors import short

SUFFIX = ".npy"
DAMAGED = "damaged or not an npz file"
PLAIN_COMPRESSIONS = (zipfile.ZIP_STORED, zipfile.ZIP_DEFLATED)
ENCRYPTED = 0x1
CHUNK = 1 << 20
KINDS = "biufUS"  # bool, integer, float, words
READERS = {(1, 0): npy_format.read_array_header_1_0, (2, 0): npy_format.read_array_header_2_0}

AnyArray = NDArray[Any]


class Header(NamedTuple):
    """Header of one array, and the byte where its numbers begin."""

    shape: tuple[int, ...]
    fortran_order: bool
    dtype: np.dtype[Any]
    start: int

    @property
    def nbytes(self) -> int:
        return math.prod(self.shape) * self.dtype.itemsize

    @property
    def memory(self) -> int:
        """Bytes once the array is an input: pixels stay one byte, other numbers take at least four."""
        return math.prod(self.shape) * (1 if self.dtype == np.uint8 else max(4, self.dtype.itemsize))


class Heads(NamedTuple):
    """Headers of the wanted arrays, and the names of the others."""

    wanted: dict[str, Header]
    unused: tuple[str, ...]


def read_heads(path: Path | str, wanted: Iterable[str], limit: int = MAX_BYTES) -> Heads:
    """The headers of the wanted arrays of an npz; unknown types and more than `limit` bytes are refused."""
    path = file_within(path, limit)
    with as_fault(path, DAMAGED), zipfile.ZipFile(path) as archive:
        members = _members(path, archive)
        found = {name: _header(path, archive, name, members[name]) for name in wanted if name in members}
    total = sum(header.memory for header in found.values())
    if total > limit:
        raise fault(path, f"unpacks to {total:,} bytes; at most {limit:,}")
    return Heads(found, tuple(name for name in members if name not in found))


def read_array(path: Path, name: str, header: Header) -> AnyArray:
    """The array that a header describes."""
    with as_fault(path, DAMAGED), zipfile.ZipFile(path) as archive:
        return _content(archive, _members(path, archive)[name], header)


def _members(path: Path, archive: zipfile.ZipFile) -> dict[str, zipfile.ZipInfo]:
    listed = archive.infolist()
    if len(listed) > MAX_MEMBERS:
        raise fault(path, f"holds {len(listed):,} arrays; at most {MAX_MEMBERS}")
    members = {member.filename.removesuffix(SUFFIX): member for member in listed}
    if len(members) < len(listed):
        raise fault(path, "two of its arrays have the same name")
    return members


def _header(path: Path, archive: zipfile.ZipFile, name: str, member: zipfile.ZipInfo) -> Header:
    if member.compress_type not in PLAIN_COMPRESSIONS or member.flag_bits & ENCRYPTED:
        raise fault(path, f"{name} is encrypted or in an unknown compression; needs what numpy.savez writes")
    with archive.open(member) as stream:
        beginning = io.BytesIO(stream.read(MAX_NPY_HEADER))  # a longer header is truncated, and so refused
    version = npy_format.read_magic(beginning)
    if version not in READERS:
        raise fault(path, f"{name} is in npy version {version}; needs 1.0 or 2.0")
    header = Header(*READERS[version](beginning, max_header_size=MAX_NPY_HEADER), start=beginning.tell())
    if header.dtype.kind not in KINDS:
        raise fault(path, f"{name} holds {short(header.dtype)}; needs numbers or words")
    if len(header.shape) > MAX_DIMENSIONS or min(header.shape, default=0) < 0:
        raise fault(
            path,
            f"{name} has shape {short(header.shape)}; needs up to {MAX_DIMENSIONS} sizes, none negative",
        )
    if header.start + header.nbytes != member.file_size:
        raise fault(
            path,
            f"{name} says {header.nbytes:,} bytes of numbers, the archive {member.file_size - header.start:,}",
        )
    return header


def _content(archive: zipfile.ZipFile, member: zipfile.ZipInfo, header: Header) -> AnyArray:
    content = np.empty(header.nbytes, dtype=np.uint8)
    filled = 0
    with archive.open(member) as stream:
        stream.read(header.start)
        while piece := stream.read(CHUNK):
            content[filled : filled + len(piece)] = np.frombuffer(piece, dtype=np.uint8)
            filled += len(piece)
    if filled != header.nbytes:
        raise EOFError(f"{member.filename} ends after {filled:,} of {header.nbytes:,} bytes")
    return content.view(header.dtype).reshape(header.shape, order="F" if header.fortran_order else "C")
