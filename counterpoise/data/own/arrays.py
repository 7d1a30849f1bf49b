"""Arrays of an npz file or of npy files as a data set."""

from __future__ import annotations

import math
from pathlib import Path
from typing import NamedTuple

from counterpoise.data.dataset import Dataset
from counterpoise.data.faults import MAX_BYTES, MAX_CLASSES, MAX_WORD, check_share, fault
from counterpoise.data.folds import Fold, draw_test, refuse_fold
from counterpoise.data.own.forms import check_alike, check_client_form, check_input_form, check_label_form
from counterpoise.data.own.labels import are_words, checked_labels, named_labels
from counterpoise.data.own.npy import ArrayFiles, Header, Heads, read_array, read_heads, read_optional
from counterpoise.data.own.pairs import array_files
from counterpoise.data.own.samples import (
    Checked,
    by_words,
    checked_inputs,
    class_names,
    coded_clients,
    join,
)
from counterpoise.data.own.standard import scaled
from counterpoise.data.root import sha256_of
from counterpoise.data.split import check_class_count
from counterpoise.errors import DataError, listed
from counterpoise.system.capacity import check_fits

WHOLE = ("x", "y")
HALVES = ("x_train", "y_train", "x_test", "y_test")
CLIENTS = ("client", "clients")
CLASSES = "classes"


def read_npz(
    path: Path | str,
    test_share: float = 0.2,
    seed: int = 0,
    limit: int = MAX_BYTES,
    labels: str | None = None,
    standardise: bool = False,
    fold: Fold | None = None,
) -> Dataset:
    """Arrays x and y, or x_train, y_train, x_test and y_test; optionally `client` (of each training sample) and `classes`.

    The path is an npz, or a folder of npy files with these names, or x.npy; `labels` is the file of y beside a path of any
    name. Labels are words, or whole numbers: indices into `classes`, or without `classes` any from 0 on. Rows in errors
    count from 1. `standardise` scales each feature by the training samples.
    """
    check_share(test_share)
    where = array_files(path, labels)
    path = where.path
    heads = read_heads(where, (*WHOLE, *HALVES, *CLIENTS, CLASSES), limit)
    names, owner = _layout(path, heads), _owner(path, heads.wanted)
    _check_forms(path, heads.wanted, names, owner)
    classes = class_names(path, read_optional(where, heads, CLASSES))
    clients = None if owner is None else read_array(where, heads, owner)
    given = _samples(where, heads, names, classes)
    coded = None if clients is None else coded_clients(path, clients, len(given.halves[0].y))
    notes = (f"arrays not used: {listed(heads.unused)}",) if heads.unused and labels is None else ()
    files = {file.name: sha256_of(file) for file in _used(where, heads)}
    train, test = given.halves[0], given.halves[-1]
    if names == WHOLE:
        split, note = draw_test(path, train.y, test_share, seed, fold)
        train, test = train.take(split.train), train.take(split.test)
        coded = None if coded is None else coded._replace(codes=coded.codes[split.train])
        notes = (*notes, note)
    else:
        refuse_fold(fold, f"{path} has arrays x_test and y_test")
    data = join(path, train, test, given.classes, coded, notes, files)
    data = by_words(data) if given.words else data
    return scaled(data, standardise)


class Given(NamedTuple):
    """Samples of the training and the test set, or of both together, and the names of their classes."""

    halves: list[Checked]
    classes: tuple[str, ...] | None
    words: bool  # labels are the names themselves


def _samples(
    where: ArrayFiles, heads: Heads, names: tuple[str, ...], classes: tuple[str, ...] | None
) -> Given:
    """Inputs and labels of train and test; labels, which are small, are read and checked first."""
    path, pairs = where.path, list(zip(names[::2], names[1::2], strict=True))
    words = are_words(heads.wanted[names[1]])
    labels = [(y, read_array(where, heads, y)) for _, y in pairs]
    if words:
        classes, codes = named_labels(path, labels, classes)
    else:
        codes = [
            checked_labels(path, y, found, heads.wanted[x].shape[0], classes)
            for (x, _), (y, found) in zip(pairs, labels, strict=True)
        ]
    inputs = [checked_inputs(path, x, read_array(where, heads, x)) for x, _ in pairs]
    return Given([Checked(x, y) for x, y in zip(inputs, codes, strict=True)], classes, words)


def _used(where: ArrayFiles, heads: Heads) -> list[Path]:
    return [where.path] if where.files is None else [where.files[name] for name in heads.wanted]


def _check_forms(path: Path, heads: dict[str, Header], names: tuple[str, ...], owner: str | None) -> None:
    """Check types and shapes before anything is unpacked: a small file may unpack to very much."""
    inputs = [heads[name] for name in names[::2]]
    for x, y in zip(names[::2], names[1::2], strict=True):
        check_input_form(path, x, heads[x])
        check_label_form(path, y, heads[y], heads[x].shape[0])
    check_alike(path, inputs[0], inputs[-1])
    if owner is not None:
        check_client_form(path, heads[owner], inputs[0].shape[0])
    for name in {owner, CLASSES, *names[1::2]} & heads.keys():
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
