"""Ways in which a reply can be wrong, each with the reason that the server must give."""

from __future__ import annotations

import copy
import json
import struct
from collections.abc import Callable
from typing import Any

import safetensors.torch
import torch
from flwr.app import ConfigRecord, RecordDict
from torch import Tensor

Damage = Callable[[RecordDict], None]
Change = Callable[[Tensor], Tensor]


def _blob(content: RecordDict) -> bytes:
    return bytes(content.config_records["reply"]["trees"])  # type: ignore[arg-type]


def _fact(name: str, value: Any) -> Damage:
    def damage(content: RecordDict) -> None:
        content["reply"] = ConfigRecord({**dict(content.config_records["reply"]), name: value})

    return damage


def _tensors(change: Callable[[dict[str, Tensor], str], None]) -> Damage:
    """Change tensors by path; the second argument is that of a matrix that is not square, so that its transpose has another shape."""

    def damage(content: RecordDict) -> None:
        found = safetensors.torch.load(_blob(content))
        path = min(p for p in found if p.startswith("0/delta/") and found[p].dim() == 2)
        change(found, path)
        _fact("trees", safetensors.torch.save(found))(content)

    return damage


def _to(change: Change) -> Damage:
    return _tensors(lambda found, path: found.update({path: change(found[path]).contiguous()}))


def _spoil(value: float) -> Damage:
    def change(numbers: Tensor) -> Tensor:
        numbers.view(-1)[0] = value
        return numbers

    return _to(change)


def _head(change: Callable[[dict[str, Any]], None]) -> Damage:
    """Change the head of the blob, which says what its bytes are."""

    def damage(content: RecordDict) -> None:
        blob = _blob(content)
        (size,) = struct.unpack("<Q", blob[:8])
        head = json.loads(blob[8 : 8 + size])
        change(head)
        text = json.dumps(head).encode()
        _fact("trees", struct.pack("<Q", len(text)) + text + blob[8 + size :])(content)

    return damage


def _entry(**values: Any) -> Damage:
    return _head(lambda head: head[min(name for name in head if name != "__metadata__")].update(values))


def _bytes(change: Callable[[bytes], bytes]) -> Damage:
    return lambda content: _fact("trees", change(_blob(content)))(content)


def _no_records(content: RecordDict) -> None:
    for name in list(content):
        del content[name]


def _another_record(content: RecordDict) -> None:
    content["note"] = ConfigRecord({"note": "hello"})


DAMAGES: dict[str, tuple[Damage, str]] = {
    "nan": (_spoil(float("nan")), "finite"),
    "inf": (_spoil(float("inf")), "finite"),
    "minus inf": (_spoil(float("-inf")), "finite"),
    "1e38": (_spoil(1e38), "range"),
    "shape": (_to(lambda a: a[:, :-1]), "shape"),
    "one number": (_to(lambda a: a.reshape(-1)[:1]), "shape"),
    "scalar": (_to(lambda a: a.reshape(-1)[0].clone()), "shape"),
    "transposed": (_to(lambda a: a.T), "shape"),
    "half": (_to(lambda a: a.half()), "dtype"),
    "bools": (_to(lambda a: a > 0), "dtype"),
    "whole numbers": (_to(lambda a: a.long()), "dtype"),
    "missing": (_tensors(lambda found, path: found.pop(path)), "names"),
    "extra": (_tensors(lambda found, path: found.update({"0/delta/unheard-of": torch.zeros(3)})), "names"),
    "renamed": (_tensors(lambda found, path: found.update({path + "2": found.pop(path)})), "names"),
    "another task": (_tensors(lambda found, path: found.update({"1/delta": torch.zeros(3)})), "names"),
    "below a tensor": (
        _tensors(lambda found, path: found.update({path + "/deeper": torch.zeros(3)})),
        "tensors",
    ),
    "empty": (_to(lambda a: a[:0]), "shape"),
    "no tensors": (_bytes(lambda blob: safetensors.torch.save({})), "names"),
    "no bytes": (_bytes(lambda blob: b""), "tensors"),
    "no records": (_no_records, "records"),
    "another record": (_another_record, "records"),
    "ten times the size": (_to(lambda a: a.repeat(10, 1)), "shape"),
    "bomb": (_entry(shape=[1 << 40]), "tensors"),
    "bytes of another": (_entry(data_offsets=[8, 16]), "tensors"),
    "negative shape": (_entry(shape=[-1, 3]), "tensors"),
    "objects": (_entry(dtype="O"), "tensors"),
    "no head": (_bytes(lambda blob: struct.pack("<Q", 1 << 60) + blob[8:]), "tensors"),
    "pickle": (_bytes(lambda blob: b"\x80\x04N."), "tensors"),
    "truncated": (_bytes(lambda blob: blob[:-8]), "tensors"),
    "more bytes": (_bytes(lambda blob: blob + b"\0" * 8), "tensors"),
    "trees as words": (_fact("trees", "tensors"), "records"),
    "weight nan": (_fact("samples", float("nan")), "samples"),
    "weight inf": (_fact("samples", float("inf")), "samples"),
    "weight 0": (_fact("samples", 0), "samples"),
    "weight -1": (_fact("samples", -1), "samples"),
    "weight 1e10": (_fact("samples", 10**10), "samples"),
    "weight 1e308": (_fact("samples", 1e308), "samples"),
    "weight True": (_fact("samples", True), "samples"),
    "weight '5'": (_fact("samples", "5"), "samples"),
    "loss nan": (_tensors(lambda found, path: found["0/loss"].fill_(float("nan"))), "finite"),
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
