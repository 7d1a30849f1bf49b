"""Trees and plain values as Flower records and back, typed, never pickled; a tree is one blob, so one request."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from flwr.app import ConfigRecord, RecordDict

from counterpoise.core.codec import decode, encode
from counterpoise.core.tree import Tree
from counterpoise.errors import DataError
from counterpoise.flower.refusal import Refused

TREE = "tree"  # the only entry of a record that holds a tree


def pack_tree(tree: Tree) -> ConfigRecord:
    """A tree in the safetensors format."""
    return ConfigRecord({TREE: encode(tree)})


def unpack_tree(record: object) -> Tree:
    """The tree that `pack_tree` wrote, as a copy; refused where the record holds anything else."""
    return read_tree(unpack_facts(record, {TREE: bytes})[TREE])


def read_tree(blob: bytes) -> Tree:
    """An untrusted tree: sizes are checked against the bytes before anything is allocated."""
    try:
        return decode(blob)
    except DataError:
        raise Refused("tensors") from None


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
    """The records of these names; any other set of names is refused."""
    if set(content) != set(names):
        raise Refused("records")
    return [content[name] for name in names]


def payload_bytes(content: RecordDict) -> int:
    """Bytes of all trees in a message."""
    values = (value for record in content.config_records.values() for value in record.values())
    return sum(len(value) for value in values if isinstance(value, bytes))
