"""An npz file as a data set."""

from __future__ import annotations

import math
from pathlib import Path

from counterpoise.data.dataset import Dataset
from counterpoise.data.faults import MAX_BYTES, MAX_CLASSES, MAX_WORD, check_share, fault
from counterpoise.data.own.forms import check_alike, check_client_form, check_input_form, check_label_form
from counterpoise.data.own.npy import AnyArray, Header, Heads, read_array, read_heads
from counterpoise.data.own.samples import (
    Checked,
    checked_inputs,
    checked_labels,
    class_names,
    coded_clients,
    join,
)
from counterpoise.data.root import sha256_of
from counterpoise.data.split import check_class_count, split_note, split_rows
from counterpoise.errors import DataError, listed
from counterpoise.system.capacity import check_fits

WHOLE = ("x", "y")
HALVES = ("x_train", "y_train", "x_test", "y_test")
CLIENTS = ("client", "clients")
CLASSES = "classes"


def read_npz(path: Path | str, test_share: float = 0.2, seed: int = 0, limit: int = MAX_BYTES) -> Dataset:
    """Arrays x and y, or x_train, y_train, x_test and y_test; optionally `client` (of each training sample) and `classes`.

    Labels are whole numbers: indices into `classes`, or without `classes` any from 0 on. Rows in errors count from 1.
    """
    check_share(test_share)
    path = Path(path)
    heads = read_heads(path, (*WHOLE, *HALVES, *CLIENTS, CLASSES), limit)
    names, owner = _layout(path, heads), _owner(path, heads.wanted)
    _check_forms(path, heads.wanted, names, owner)
    classes = class_names(path, _read(path, heads, CLASSES))
    clients = None if owner is None else _read(path, heads, owner)
    halves = _samples(path, heads, names, classes)
    coded = None if clients is None else coded_clients(path, clients, len(halves[0].y))
    notes = (f"arrays not used: {listed(heads.unused)}",) if heads.unused else ()
    files = {path.name: sha256_of(path)}
    if names == HALVES:
        train, test = halves
        return join(path, train, test, classes, coded, notes, files)
    [whole] = halves
    split = split_rows(path, whole.y, test_share, seed)
    coded = None if coded is None else coded._replace(codes=coded.codes[split.train])
    notes = (*notes, split_note(split, test_share, seed))
    return join(path, whole.take(split.train), whole.take(split.test), classes, coded, notes, files)


def _samples(
    path: Path, heads: Heads, names: tuple[str, ...], classes: tuple[str, ...] | None
) -> list[Checked]:
    """Inputs and labels of train and test; labels, which are small, are read and checked first."""
    pairs = list(zip(names[::2], names[1::2], strict=True))
    labels = [
        checked_labels(path, y, _array(path, heads, y), heads.wanted[x].shape[0], classes) for x, y in pairs
    ]
    inputs = [checked_inputs(path, x, _array(path, heads, x)) for x, _ in pairs]
    return [Checked(x, y) for x, y in zip(inputs, labels, strict=True)]


def _array(path: Path, heads: Heads, name: str) -> AnyArray:
    return read_array(path, name, heads.wanted[name])


def _read(path: Path, heads: Heads, name: str) -> AnyArray | None:
    return _array(path, heads, name) if name in heads.wanted else None


def _check_forms(path: Path, heads: dict[str, Header], names: tuple[str, ...], owner: str | None) -> None:
    """Check types and shapes before anything is unpacked: a small file may unpack to very much."""
    inputs = [heads[name] for name in names[::2]]
    for x, y in zip(names[::2], names[1::2], strict=True):
        check_input_form(path, x, heads[x])
        check_label_form(path, y, heads[y], heads[x].shape[0])
    check_alike(path, inputs[0], inputs[-1])
    if owner is not None:
        check_client_form(path, heads[owner], inputs[0].shape[0])
    for name in {owner, CLASSES} & heads.keys():
        _check_words(path, str(name), heads[str(name)])
    if CLASSES in heads and math.prod(heads[CLASSES].shape) > MAX_CLASSES:
        check_class_count(path, math.prod(heads[CLASSES].shape))
    total = sum(head.memory for head in inputs)
    twice = max(total if names == WHOLE else 0, *(head.nbytes for head in inputs))  # split, or converted
    check_fits(total + twice, f"{path}: its inputs, {' and '.join(names[::2])},", DataError)


def _check_words(path: Path, name: str, head: Header) -> None:
    width = head.dtype.itemsize // (4 if head.dtype.kind == "U" else 1)
    if head.dtype.kind in "US" and width > MAX_WORD:
        raise fault(path, f"{name} holds words of {width:,} characters; at most {MAX_WORD}")


def _layout(path: Path, found: Heads) -> tuple[str, ...]:
    given = tuple(name for name in (*WHOLE, *HALVES) if name in found.wanted)
    if given not in (WHOLE, HALVES):
        names = listed([*found.wanted, *found.unused]) or "nothing"
        raise fault(path, f"holds {names}; needs {' and '.join(WHOLE)}, or {', '.join(HALVES)}")
    return given


def _owner(path: Path, heads: dict[str, Header]) -> str | None:
    given = [name for name in CLIENTS if name in heads]
    if len(given) > 1:
        raise fault(path, f"holds both {' and '.join(given)}; needs one of them")
    return given[0] if given else None
