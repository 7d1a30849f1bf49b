"""Trees as Flower records and back: by name, typed, never pickled, never by position."""

from __future__ import annotations

import io
import math
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
import torch
from flwr.app import Array, ArrayRecord, ConfigRecord, RecordDict

from counterpoise.core.tree import Tree, flatten, unflatten
from counterpoise.engines.flower.refusal import Refused

KINDS = "fiub"  # floats, whole numbers, bools: nothing else is a tensor of ours
NUMPY = "numpy.ndarray"
HEADER_LIMIT = 10_000  # bytes that the head of one array may take


def pack_tree(tree: Tree) -> ArrayRecord:
    """The tensors of a tree by path."""
    flat = flatten(tree)
    return ArrayRecord({path: Array(flat[path].detach().cpu().contiguous().numpy()) for path in sorted(flat)})


def unpack_tree(record: object) -> Tree:
    """The tree that `pack_tree` wrote, in memory of its own; refused where anything else is in it."""
    if not isinstance(record, ArrayRecord):
        raise Refused("records")
    flat = {path: torch.from_numpy(read_array(array)) for path, array in record.items()}
    try:
        return unflatten(flat)
    except (ValueError, AttributeError, KeyError):
        raise Refused("names") from None


def read_array(array: Array) -> np.ndarray:
    """The numbers of an array, copied; its head is checked against its size before anything is allocated."""
    if array.stype != NUMPY:
        raise Refused("dtype")
    shape, fortran, dtype, start = _read_head(array.data)
    if dtype.kind not in KINDS or dtype.hasobject or str(dtype) != array.dtype:
        raise Refused("dtype")
    if tuple(array.shape) != shape:
        raise Refused("shape")
    if math.prod(shape) * dtype.itemsize != len(array.data) - start:
        raise Refused("size")
    numbers = np.frombuffer(array.data, dtype, offset=start)
    return np.array(numbers.reshape(shape, order="F" if fortran else "C"), order="C")


def _read_head(data: bytes) -> tuple[tuple[int, ...], bool, np.dtype, int]:
    stream = io.BytesIO(data)
    try:
        version = np.lib.format.read_magic(stream)
        read = {(1, 0): np.lib.format.read_array_header_1_0, (2, 0): np.lib.format.read_array_header_2_0}
        shape, fortran, dtype = read[version](stream, HEADER_LIMIT)
    except (ValueError, KeyError, TypeError, SyntaxError):
        raise Refused("size") from None
    return shape, fortran, dtype, stream.tell()


def pack_facts(facts: Mapping[str, Any]) -> ConfigRecord:
    """Plain values by name."""
    return ConfigRecord(dict(facts))


def unpack_facts(record: object, kinds: Mapping[str, type]) -> dict[str, Any]:
    """Plain values by name, each of exactly its type, and no others: a bool is not a number here."""
    if not isinstance(record, ConfigRecord) or set(record) != set(kinds):
        raise Refused("records")
    for name, kind in kinds.items():
        if type(record[name]) is not kind:
            raise Refused(name)
    return dict(record)


def take(content: RecordDict, names: Sequence[str]) -> list[object]:
    """The records of these names, where exactly these are there."""
    if set(content) != set(names):
        raise Refused("records")
    return [content[name] for name in names]


def payload_bytes(content: RecordDict) -> int:
    """Bytes of all tensors in a message, heads included."""
    return sum(len(array.data) for record in content.array_records.values() for array in record.values())
