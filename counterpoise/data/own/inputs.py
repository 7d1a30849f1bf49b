"""Files with new data for a trained model, read as its training data was: tables, arrays, packs and images."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import NamedTuple

import torch
from torch import Tensor

from counterpoise.data.faults import fault
from counterpoise.data.own.arrays import CLASSES
from counterpoise.data.own.folder import read_pictures
from counterpoise.data.own.forms import PIXEL_DIMENSIONS, check_input_form, check_label_form
from counterpoise.data.own.kinds import kind_of
from counterpoise.data.own.labels import are_words, checked_labels, checked_words
from counterpoise.data.own.npy import SUFFIX, ArrayFiles, Heads, read_array, read_heads, read_optional
from counterpoise.data.own.pack import read_pack
from counterpoise.data.own.pairs import array_files
from counterpoise.data.own.samples import checked_inputs, class_names, image_tensor
from counterpoise.data.preprocessing import UNKNOWN, Preprocessing
from counterpoise.data.tables.table import open_table
from counterpoise.errors import listed

PAIRS = (("x_test", "y_test"), ("x", "y"))  # the first pair that a file has


class Given(NamedTuple):
    """New samples: inputs before scaling, a name of each, their classes where they are known, and notes."""

    x: Tensor  # [n, ...]
    names: Sequence[str]  # rows of a file, or files
    y: Tensor | None = None  # [n]; UNKNOWN for a sample without a label
    notes: tuple[str, ...] = ()


def read_inputs(path: Path | str, how: Preprocessing) -> Given:
    """The samples of a file or folder of any kind that a run takes."""
    path = Path(path)
    readers = {"table": _rows, "arrays": _arrays, "pack": _packed, "images": _pictures}
    return readers[kind_of(path, new=True)](path, how)


def _rows(path: Path, how: Preprocessing) -> Given:
    """A table; its label column, where it has one, may be empty in some rows."""
    table = open_table(path, fewest=1)
    x, label = how.encode(table), how.form.label
    names = [str(row) for row in table.rows]
    notes = (*table.notes, *how.unseen(table))
    if label is None or label not in table.columns:
        return Given(x, names, None, notes)
    return _labelled(x, names, how.codes(table.columns[label], str(path), table.rows), notes)


def _arrays(path: Path, how: Preprocessing) -> Given:
    """Arrays x, or x_test; y and classes as `run` takes them, where there are any. An npy file alone is x."""
    where = ArrayFiles(path, {"x": path}) if path.suffix.lower() == SUFFIX else array_files(path)
    wanted = [name for pair in PAIRS for name in pair]
    heads = read_heads(where, (*wanted, CLASSES))
    found = next(((x, y) for x, y in PAIRS if x in heads.wanted), None)
    if found is None:
        raise fault(path, f"holds {listed([*heads.wanted, *heads.unused]) or 'nothing'}; needs x, or x_test")
    x, y = found
    head = heads.wanted[x]
    check_input_form(path, x, head)
    inputs = image_tensor(checked_inputs(path, x, read_array(where, heads, x)))
    fitted = how.fitting(f"{path}: {x}", _no_columns(path, how, inputs))
    names = [str(row) for row in range(1, len(fitted) + 1)]
    if y not in heads.wanted:
        return Given(fitted, names)
    return _labelled(fitted, names, how.codes(_words(where, heads, y, head.shape[0]), str(path)))


def _words(where: ArrayFiles, heads: Heads, y: str, samples: int) -> list[str]:
    """Labels as words: by the file's own names of classes, else what is there."""
    path, head = where.path, heads.wanted[y]
    check_label_form(path, y, head, samples)
    labels = read_array(where, heads, y)
    if are_words(head):
        return checked_words(path, y, labels)
    names = class_names(path, read_optional(where, heads, CLASSES))
    codes = checked_labels(path, y, labels, samples, names)
    return [str(label) if names is None else names[label] for label in codes.tolist()]


def _packed(path: Path, how: Preprocessing) -> Given:
    """The test samples of a pack, which are encoded already."""
    data = read_pack(path).dataset
    if data.classes != how.form.classes:
        raise fault(path, f"has the classes {listed(data.classes)}; the model {listed(how.form.classes)}")
    x = how.fitting(f"{path}: its test samples", data.test.x)
    return _labelled(x, [str(row) for row in range(1, len(x) + 1)], data.test.y)


def _pictures(path: Path, how: Preprocessing) -> Given:
    """Images below a folder; the folder that one lies in names its class, where it is one of the model's."""
    shape = how.form.shape
    if not how.form.pixels or len(shape) != PIXEL_DIMENSIONS - 1:
        raise fault(path, f"holds images, but the model takes {_taken(how)}")
    root = path.resolve()  # links below it may not lead out of it
    files, folders, pixels = read_pictures(root, (shape[1], shape[2]), shape[0], how.resized)
    x = how.fitting(str(path), torch.from_numpy(pixels))
    names = [file.relative_to(root if root.is_dir() else root.parent).as_posix() for file in files]
    known = [folder if folder in how.form.classes else "" for folder in folders]
    return _labelled(x, names, how.codes(known, str(path)))


def _labelled(x: Tensor, names: Sequence[str], y: Tensor, notes: tuple[str, ...] = ()) -> Given:
    lacking = int((y == UNKNOWN).sum())
    if lacking == len(y):
        return Given(x, names, None, notes)
    missing = (f"{lacking:,} of {len(y):,} samples have no label and are not scored",) if lacking else ()
    return Given(x, names, y, (*notes, *missing))


def _no_columns(path: Path, how: Preprocessing, x: Tensor) -> Tensor:
    """Arrays have no names of columns, and so may not stand in for a table."""
    if how.form.columns is not None:
        raise fault(path, f"holds arrays, but the model takes {_taken(how)}")
    return x


def _taken(how: Preprocessing) -> str:
    if how.form.columns is not None:
        columns = [*how.form.columns.numbers, *how.form.columns.words]
        return f"a table with the columns {listed(columns)}"
    return f"{'pixels' if how.form.pixels else 'numbers'} of shape {list(how.form.shape)}"
