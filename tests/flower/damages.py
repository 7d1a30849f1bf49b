"""Ways in which a reply can be wrong, each with the reason that the server must give."""

from __future__ import annotations

import copy
import io
from collections.abc import Callable
from typing import Any

import numpy as np
from flwr.app import Array, ArrayRecord, ConfigRecord, RecordDict

Damage = Callable[[RecordDict], None]


def _first(content: RecordDict) -> tuple[ArrayRecord, str]:
    record = content.array_records["task-0"]
    # A matrix that is not square, so that its transpose has another shape.
    paths = sorted(p for p in record if p.startswith("delta/") and len(record[p].shape) == 2)
    return record, paths[0]


def _to(change: Callable[[np.ndarray], np.ndarray]) -> Damage:
    def damage(content: RecordDict) -> None:
        record, path = _first(content)
        record[path] = Array(change(record[path].numpy()))

    return damage


def _spoil(value: float) -> Damage:
    def change(numbers: np.ndarray) -> np.ndarray:
        numbers.flat[0] = value
        return numbers

    return _to(change)


def _object(content: RecordDict) -> None:
    """A head that promises pickled objects."""
    record, path = _first(content)
    stream = io.BytesIO()
    np.lib.format.write_array_header_1_0(
        stream, {"descr": "|O", "fortran_order": False, "shape": record[path].shape}
    )
    head = b"\x93NUMPY\x01\x00" + stream.getvalue()[8:]
    record[path] = Array("object", record[path].shape, "numpy.ndarray", head + b"\x80\x04N.")


def _bomb(content: RecordDict) -> None:
    """A head of 2^40 numbers with a few bytes behind it."""
    record, path = _first(content)
    stream = io.BytesIO()
    np.lib.format.write_array_header_1_0(
        stream, {"descr": "<f8", "fortran_order": False, "shape": (1 << 40,)}
    )
    record[path] = Array("float64", (1 << 40,), "numpy.ndarray", stream.getvalue() + b"\0" * 16)


def _truncated(content: RecordDict) -> None:
    record, path = _first(content)
    old = record[path]
    record[path] = Array(old.dtype, old.shape, old.stype, old.data[:-8])


def _missing(content: RecordDict) -> None:
    record, path = _first(content)
    del record[path]


def _extra(content: RecordDict) -> None:
    content.array_records["task-0"]["delta/unheard-of"] = Array(np.zeros(3))


def _renamed(content: RecordDict) -> None:
    record, path = _first(content)
    record[path + "2"] = record[path]
    del record[path]


def _below_a_tensor(content: RecordDict) -> None:
    record, path = _first(content)
    record[path + "/deeper"] = Array(np.zeros(3))


def _empty_record(content: RecordDict) -> None:
    content["task-0"] = ArrayRecord()


def _no_records(content: RecordDict) -> None:
    for name in list(content):
        del content[name]


def _loss(content: RecordDict) -> None:
    record = content.array_records["task-0"]
    record["loss"] = Array(np.full_like(record["loss"].numpy(), np.nan))


def _fact(name: str, value: Any) -> Damage:
    def damage(content: RecordDict) -> None:
        content["reply"] = ConfigRecord({**dict(content.config_records["reply"]), name: value})

    return damage


DAMAGES: dict[str, tuple[Damage, str]] = {
    "nan": (_spoil(np.nan), "finite"),
    "inf": (_spoil(np.inf), "finite"),
    "minus inf": (_spoil(-np.inf), "finite"),
    "1e38": (_spoil(1e38), "range"),
    "shape": (_to(lambda a: a[:, :-1].copy()), "shape"),
    "one number": (_to(lambda a: a.reshape(-1)[:1].copy()), "shape"),
    "scalar": (_to(lambda a: np.array(a.flat[0])), "shape"),
    "transposed": (_to(lambda a: np.ascontiguousarray(a.T)), "shape"),
    "object": (_object, "dtype"),
    "words": (_to(lambda a: np.full(a.shape, "x")), "dtype"),
    "complex": (_to(lambda a: a.astype(np.complex128)), "dtype"),
    "whole numbers": (_to(lambda a: a.astype(np.int64)), "dtype"),
    "missing": (_missing, "names"),
    "extra": (_extra, "names"),
    "renamed": (_renamed, "names"),
    "below a tensor": (_below_a_tensor, "names"),
    "empty": (_to(lambda a: a[:0].copy()), "shape"),
    "empty record": (_empty_record, "names"),
    "no records": (_no_records, "records"),
    "ten times the size": (_to(lambda a: np.tile(a, (10, 1))), "shape"),
    "bomb": (_bomb, "size"),
    "truncated": (_truncated, "size"),
    "weight nan": (_fact("samples", float("nan")), "samples"),
    "weight inf": (_fact("samples", float("inf")), "samples"),
    "weight 0": (_fact("samples", 0), "samples"),
    "weight -1": (_fact("samples", -1), "samples"),
    "weight 1e308": (_fact("samples", 1e308), "samples"),
    "weight True": (_fact("samples", True), "samples"),
    "weight '5'": (_fact("samples", "5"), "samples"),
    "loss nan": (_loss, "finite"),
    "older round": (_fact("round", 0), "round"),
    "future round": (_fact("round", 7), "round"),
    "another client": (_fact("client", "0"), "client"),
    "another model": (_fact("sha256", "f" * 64), "sha256"),
    "another memory": (_fact("token", "f" * 64), "token"),
    "extra fact": (_fact("note", "hello"), "records"),
}


def damaged(content: RecordDict, name: str) -> RecordDict:
    spoilt = copy.deepcopy(content)
    DAMAGES[name][0](spoilt)
    return spoilt
