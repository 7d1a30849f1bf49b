"""Arrays of an npz file or of npy files: every header is checked before anything is unpacked, and pickled objects are never read."""

from __future__ import annotations

import io
import math
import zipfile
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import contextmanager
from functools import partial
from pathlib import Path
from typing import IO, Any, NamedTuple

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


class ArrayFiles(NamedTuple):
    """Where arrays lie: in one npz, or each in an npy file of its own."""

    path: Path  # for errors
    files: Mapping[str, Path] | None = None  # by the name of the array; None: `path` is an npz

    @property
    def all(self) -> tuple[Path, ...]:
        return (self.path,) if self.files is None else tuple(self.files.values())

    @property
    def damaged(self) -> str:
        """What is wrong where they cannot be read."""
        return f"damaged or not an {'npz' if self.files is None else 'npy'} file"


class _Member(NamedTuple):
    """One array as bytes."""

    size: int
    open: Callable[[], IO[bytes]]
    plain: bool = True  # not encrypted, and in a compression that is known


def read_heads(where: ArrayFiles, wanted: Iterable[str], limit: int = MAX_BYTES) -> Heads:
    """The headers of the wanted arrays; unknown types and more than `limit` bytes are refused."""
    path = where.path
    for file in where.all:
        file_within(file, limit)
    with as_fault(path, where.damaged), _members(where) as members:
        found = {name: _header(path, name, members[name]) for name in wanted if name in members}
        unused = tuple(name for name in members if name not in found)
    total = sum(header.memory for header in found.values())
    if total > limit:
        raise fault(path, f"unpacks to {total:,} bytes; at most {limit:,}")
    return Heads(found, unused)


def read_array(where: ArrayFiles, heads: Heads, name: str) -> AnyArray:
    """One of the wanted arrays."""
    with as_fault(where.path, where.damaged), _members(where) as members:
        return _content(name, members[name], heads.wanted[name])


def read_optional(where: ArrayFiles, heads: Heads, name: str) -> AnyArray | None:
    """One of the wanted arrays; None where it is not there."""
    return read_array(where, heads, name) if name in heads.wanted else None


@contextmanager
def _members(where: ArrayFiles) -> Iterator[dict[str, _Member]]:
    if where.files is not None:
        yield {
            name: _Member(file.stat().st_size, partial(_opened, file)) for name, file in where.files.items()
        }
        return
    with zipfile.ZipFile(where.path) as archive:
        yield _packed(where.path, archive)


def _opened(file: Path) -> IO[bytes]:
    return file.open("rb")


def _packed(path: Path, archive: zipfile.ZipFile) -> dict[str, _Member]:
    listed = archive.infolist()
    if len(listed) > MAX_MEMBERS:
        raise fault(path, f"holds {len(listed):,} arrays; at most {MAX_MEMBERS}")
    members = {
        one.filename.removesuffix(SUFFIX): _Member(
            one.file_size,
            partial(archive.open, one),
            one.compress_type in PLAIN_COMPRESSIONS and not one.flag_bits & ENCRYPTED,
        )
        for one in listed
    }
    if len(members) < len(listed):
        raise fault(path, "two of its arrays have the same name")
    return members


def _header(path: Path, name: str, member: _Member) -> Header:
    if not member.plain:
        raise fault(path, f"{name} is encrypted or in an unknown compression; needs what numpy.savez writes")
    with member.open() as stream:
        beginning = io.BytesIO(stream.read(MAX_NPY_HEADER))  # a longer header is truncated, and so refused
    version = npy_format.read_magic(beginning)
    if version not in READERS:
        raise fault(path, f"{name} is in npy version {version}; needs 1.0 or 2.0")
    header = Header(*READERS[version](beginning, max_header_size=MAX_NPY_HEADER), start=beginning.tell())
    if header.dtype.kind not in KINDS:
        hint = ", as astype(str) makes them of objects" if header.dtype.kind == "O" else ""
        raise fault(path, f"{name} holds {short(header.dtype)}; needs numbers or words{hint}")
    if len(header.shape) > MAX_DIMENSIONS or min(header.shape, default=0) < 0:
        raise fault(
            path,
            f"{name} has shape {short(header.shape)}; needs up to {MAX_DIMENSIONS} sizes, none negative",
        )
    if header.start + header.nbytes != member.size:
        raise fault(
            path,
            f"{name} says {header.nbytes:,} bytes of numbers, the archive {member.size - header.start:,}",
        )
    return header


def _content(name: str, member: _Member, header: Header) -> AnyArray:
    content = np.empty(header.nbytes, dtype=np.uint8)
    filled = 0
    with member.open() as stream:
        stream.read(header.start)
        while piece := stream.read(CHUNK):
            content[filled : filled + len(piece)] = np.frombuffer(piece, dtype=np.uint8)
            filled += len(piece)
    if filled != header.nbytes:
        raise EOFError(f"{name} ends after {filled:,} of {header.nbytes:,} bytes")
    return content.view(header.dtype).reshape(header.shape, order="F" if header.fortran_order else "C")
